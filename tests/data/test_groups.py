from pathlib import Path

import pytest

from momentalign.data import DomainDataset, ImageFiles, load_dataset
from tests.data.files import CELEBA_ROWS, write_celeba, write_csv, write_waterbirds


def rows_of(data: DomainDataset) -> set[tuple[str, int, int, str, str]]:
    """File, class, group, domain and split of every row."""
    found = set()
    for domain, splits in data.domains.items():
        for split, rows in splits.items():
            assert isinstance(rows.inputs, ImageFiles)
            assert rows.groups is not None
            columns = zip(rows.inputs.names, rows.targets.tolist(), rows.groups.tolist(), strict=True)
            found |= {(name, y, group, domain, split) for name, y, group in columns}
    return found


def test_waterbirds(tmp_path: Path) -> None:
    write_waterbirds(tmp_path)
    data = load_dataset("waterbirds", root=tmp_path)
    assert data.names == ("land", "water")
    assert data.split_names == ("train", "val", "test")
    assert data.classes == ("landbird", "waterbird")
    assert data.group_names == ("landbird, land", "landbird, water", "waterbird, land", "waterbird, water")
    assert data.training_recipe == "mnist"  # the images here are tiny
    assert len(data.split("water", "train")) == 3
    for _, y, group, domain, _ in rows_of(data):
        assert group == 2 * y + ("land", "water").index(domain)
    assert ("005.Some_Bird/Some_Bird_0004_4.jpg", 1, 3, "water", "train") in rows_of(data)
    assert ("008.Some_Bird/Some_Bird_0007_7.jpg", 1, 2, "land", "val") in rows_of(data)
    inputs = data.split("land", "test").inputs
    assert isinstance(inputs, ImageFiles)
    assert inputs.decode(0, 4).shape == (3, 4, 4)


def test_trial_and_holdout_leave_published_splits_alone(tmp_path: Path) -> None:
    write_waterbirds(tmp_path)
    first, second = (load_dataset("waterbirds", root=tmp_path, trial=trial, holdout=0.5) for trial in (0, 1))
    assert rows_of(first) == rows_of(second)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.filterwarnings("ignore:celeba. domain")  # six images do not fill all classes and splits
def test_celeba(text: bool, nested: bool, tmp_path: Path) -> None:
    write_celeba(tmp_path, text=text, nested=nested)
    data = load_dataset("celeba", root=tmp_path)
    assert data.names == ("female", "male")
    assert data.classes == ("not blond", "blond")
    assert data.group_names == ("not blond, female", "not blond, male", "blond, female", "blond, male")
    folder = "img_align_celeba/" * (2 if nested else 1)
    expected = set()
    for name, blond, male, _, partition in CELEBA_ROWS:
        y, a = int(blond == 1), int(male == 1)
        split = ("train", "val", "test")[partition]
        expected.add((folder + name, y, 2 * y + a, ("female", "male")[a], split))
    assert rows_of(data) == expected


def test_missing_files_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"metadata\.csv does not exist\. Run 'momentalign data fetch waterbirds'"
    ):
        load_dataset("waterbirds", root=tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"list_attr_celeba\.csv does not exist\. Run 'momentalign data fetch ce"
    ):
        load_dataset("celeba", root=tmp_path)


def test_missing_images_are_counted(tmp_path: Path) -> None:
    folder = write_waterbirds(tmp_path)
    for name in ("002.Some_Bird/Some_Bird_0001_1.jpg", "003.Some_Bird/Some_Bird_0002_2.jpg"):
        (folder / name).unlink()
    (folder / "003.Some_Bird").rmdir()
    with pytest.raises(ValueError, match=r"2 of 13 images are missing, .*Some_Bird_0001_1\.jpg first"):
        load_dataset("waterbirds", root=tmp_path)


def test_tables_of_another_format(tmp_path: Path) -> None:
    folder = write_waterbirds(tmp_path)
    write_csv(folder / "metadata.csv", ("img_id", "img_filename", "label"), [])
    with pytest.raises(ValueError, match=r"but y, split, place are missing\. Found: img_id, img_filename, label"):
        load_dataset("waterbirds", root=tmp_path)
    header = ("img_filename", "y", "split", "place")
    first, second = "001.Some_Bird/Some_Bird_0000_0.jpg", "002.Some_Bird/Some_Bird_0001_1.jpg"
    write_csv(folder / "metadata.csv", header, [(first, 0, 0, 0), (second, 2, 0, 0)])
    with pytest.raises(ValueError, match=r"metadata\.csv: row 2 should have one of 0, 1, but has '2'"):
        load_dataset("waterbirds", root=tmp_path)
    (folder / "metadata.csv").write_text("img_filename,y,split,place\na.jpg,0\n")
    with pytest.raises(ValueError, match="row 1 should have 4 values, but has 2"):
        load_dataset("waterbirds", root=tmp_path)
    (folder / "metadata.csv").write_text("")
    with pytest.raises(ValueError, match="Found: nothing"):
        load_dataset("waterbirds", root=tmp_path)


def test_celeba_needs_a_split_for_every_image(tmp_path: Path) -> None:
    folder = write_celeba(tmp_path)
    write_csv(folder / "list_eval_partition.csv", ("image_id", "partition"), [("000001.jpg", 0)])
    with pytest.raises(ValueError, match=r"5 are missing, 000002\.jpg first"):
        load_dataset("celeba", root=tmp_path)
