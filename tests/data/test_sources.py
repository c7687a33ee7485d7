import hashlib
from urllib.parse import urlsplit

import pytest

from momentalign.data import dataset_path, fetch
from momentalign.data._sources import SOURCES, find_source


def test_sources_are_well_formed() -> None:
    for source in SOURCES.values():
        for file in source.files:
            assert file.urls
            assert all(urlsplit(url).scheme in ("http", "https") for url in file.urls)
            for checksum in file.checksum.split("|") if file.checksum else ():
                algorithm, _, digits = checksum.partition(":")
                assert len(bytes.fromhex(digits)) == hashlib.new(algorithm.removeprefix("gunzip-")).digest_size


def test_files_have_published_checksums_and_more_than_one_address() -> None:
    files = [file for source in SOURCES.values() for file in source.files]
    unchecked = {file.name for file in files if not file.checksum}
    assert unchecked == {
        "caltech_camera_traps.json.zip",
        "domain_net_duplicates.txt",
        "multinli_1.0/metadata_random.csv",
    }
    assert {file.name for file in files if len(set(file.urls)) < 2} == {"VLCS.tar.gz"}


def test_names() -> None:
    with pytest.raises(ValueError, match="colored-digits has no files"):
        dataset_path("colored-digits")
    with pytest.raises(ValueError, match=r"no data set 'pcas'\. Meant 'pacs'\?"):
        fetch("pcas")
    assert find_source("rotated-mnist")[0] == "mnist"
