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
            if file.checksum:
                algorithm, _, digits = file.checksum.partition(":")
                assert len(bytes.fromhex(digits)) == hashlib.new(algorithm.removeprefix("gunzip-")).digest_size


def test_names() -> None:
    with pytest.raises(ValueError, match="colored-digits has no files"):
        dataset_path("colored-digits")
    with pytest.raises(ValueError, match=r"no data set 'pcas'\. Meant 'pacs'\?"):
        fetch("pcas")
    assert find_source("rotated-mnist")[0] == "mnist"
