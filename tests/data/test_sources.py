import hashlib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from momentalign.data import dataset_path, fetch
from momentalign.data._sources import SOURCES, find_source, sort_camera_traps
from tests.data.files import write_camera_traps


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
    with pytest.raises(ValueError, match=r"no data set 'pcas'\. Did you mean 'pacs'\?"):
        fetch("pcas")
    assert find_source("rotated-mnist")[0] == "mnist"


def test_images_are_sorted_by_place_and_animal(tmp_path: Path) -> None:
    sort_camera_traps(write_camera_traps(tmp_path))
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "location_100/bobcat/b-2.jpg",
        "location_38/bobcat/a-1.jpg",
        "location_38/opossum/a-1.jpg",
    ]


def test_other_archives(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"should contain the folder eccv_18_all_images_sm and one \.json .* Found: nothing"
    ):
        sort_camera_traps(tmp_path)
    (write_camera_traps(tmp_path) / "caltech_images_20210113.json").write_text('{"images": []}')
    with pytest.raises(
        ValueError, match=r"caltech_images_20210113\.json should be labels .* \(KeyError: 'categories'\)"
    ):
        sort_camera_traps(tmp_path)
