from pathlib import Path

import pytest

from momentalign.data._terra import sort_camera_traps
from tests.data.files import write_camera_traps


def test_images_are_sorted_by_place_and_animal(tmp_path: Path) -> None:
    sort_camera_traps(write_camera_traps(tmp_path))
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "location_100/bobcat/b-2.jpg",
        "location_38/bobcat/a-1.jpg",
        "location_38/opossum/a-1.jpg",
    ]


def test_other_archives(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"should hold the folder eccv_18_all_images_sm and one \.json .* Found: nothing"
    ):
        sort_camera_traps(tmp_path)
    (write_camera_traps(tmp_path) / "caltech_images_20210113.json").write_text('{"images": []}')
    with pytest.raises(
        ValueError, match=r"caltech_images_20210113\.json should be labels .* \(KeyError: 'categories'\)"
    ):
        sort_camera_traps(tmp_path)
