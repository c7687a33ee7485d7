from pathlib import Path

import pytest

from momentalign.data import data_folder, dataset_names, load_dataset
from momentalign.data._load import _LOADERS


def test_names() -> None:
    assert tuple(_LOADERS) == dataset_names()


@pytest.mark.parametrize("name", ["colored-digits", "rotated-digits"])
def test_embedded_sets_need_nothing(name: str, tmp_path: Path) -> None:
    data = load_dataset(name, root=tmp_path / "nowhere", trial=3, holdout=0.5)
    assert data.name == name
    splits = data.domains[data.names[0]]
    assert len(splits["in"]) == pytest.approx(len(splits["out"]), rel=0.01)


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"no data set and no folder or file 'colord-digits'\. Did you mean 'colored-digits'\?"
    ):
        load_dataset("colord-digits")
    with pytest.raises(ValueError, match=r"Data sets: colored-digits, .*, multinli"):
        load_dataset("zzz")


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone/images does not exist"):
        load_dataset(tmp_path / "gone" / "images")
    with pytest.raises(FileNotFoundError, match=r"features\.parquet does not exist"):
        load_dataset("features.parquet")


def test_holdout_is_checked() -> None:
    with pytest.raises(ValueError, match=r"'holdout' should be at least 0 and below 1, but is 20"):
        load_dataset("colored-digits", holdout=20)


def test_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("MOMENTALIGN_DATA", raising=False)
    assert data_folder() == Path("/home/somebody/.cache/momentalign")
    monkeypatch.setenv("MOMENTALIGN_DATA", "~/data")
    assert data_folder() == Path("/home/somebody/data")
    assert data_folder(tmp_path) == tmp_path
