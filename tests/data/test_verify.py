from pathlib import Path

import pytest

from momentalign.data import fetch, verify
from momentalign.data._checksums import write_manifest
from tests.data.files import PACS, pack_pacs, set_source, write_image_folder, write_mnist, write_waterbirds
from tests.data.server import Answers


def test_verify_names_what_changed(mirrors: Answers, tmp_path: Path) -> None:
    mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")
    fetch("pacs", tmp_path)
    (tmp_path / "PACS/photo/dog/pic_0001.jpg").write_bytes(b"rot")
    (tmp_path / "PACS/sketch/cat/pic_0000.jpg").unlink()
    problems = verify("pacs", tmp_path)
    assert len(problems) == 2
    assert problems[0].startswith(f"sha256 of {tmp_path / 'PACS/photo/dog/pic_0001.jpg'} is ")
    assert problems[1] == f"{tmp_path / 'PACS/sketch/cat/pic_0000.jpg'} is missing."


def test_verify_counts_rows(mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image_folder(tmp_path / "PACS", {domain: {"dog": 3, "cat": 2} for domain in PACS})
    set_source(monkeypatch, "pacs", rows={"photo": 5, "sketch": 3929})
    assert verify("pacs", tmp_path) == ["pacs should have 3929 rows in sketch, but has 5."]
    write_waterbirds(tmp_path)
    set_source(monkeypatch, "waterbirds", rows={"train": 5, "val": 4, "test": 5})
    assert verify("waterbirds", tmp_path) == ["waterbirds should have 5 rows in test, but has 4."]


def test_verify_of_nothing_and_of_half(mirrors: Answers, tmp_path: Path) -> None:
    assert verify("vlcs", tmp_path) == [f"{tmp_path / 'VLCS'} does not exist. Run 'momentalign data fetch vlcs'."]
    (tmp_path / "VLCS" / "SUN09").mkdir(parents=True)
    assert verify("vlcs", tmp_path) == [
        f"{tmp_path / 'VLCS'} lacks Caltech101, LabelMe and VOC2007. Run 'momentalign data fetch vlcs'."
    ]
    write_image_folder(tmp_path / "PACS", {domain: {"dog": 1} for domain in PACS})
    for path in (tmp_path / "PACS" / "photo" / "dog").iterdir():
        path.unlink()
    (problem,) = verify("pacs", tmp_path)
    assert "should have the structure domain/class/image" in problem


def test_mnist_of_other_content_is_found_out(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    problems = verify("rotated-mnist", tmp_path)
    assert len(problems) == 4
    assert problems[0].startswith("sha256 of the content of ")


def test_published_checksums_count_beside_recorded_ones(tmp_path: Path) -> None:
    write_manifest(write_mnist(tmp_path) / "mnist", tmp_path / "mnist.sha256")
    assert len(verify("mnist", tmp_path)) == 4
