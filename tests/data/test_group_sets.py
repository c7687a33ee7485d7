from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from momentalign.data import ImageFiles, load_dataset, make_group_set
from momentalign.data._group_sets import draw_group_splits
from momentalign.probing import ProbeData
from momentalign.runs import data_stamp
from tests.data.files import write_csv, write_image, write_image_folder

COUNTS = {
    "photo": {"dog": 30, "polar bear": 30, "cat": 3},
    "line art": {"dog": 40, "polar bear": 50},
    "oil": {"dog": 2},
}
CHOICE = {"classes": ("dog", "polar bear"), "domains": ("photo", "line art")}
GROUPS = ("dog, photo", "dog, line art", "polar bear, photo", "polar bear, line art")


def feature_table(path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [(d, c) for d, classes in COUNTS.items() for c, n in classes.items() for _ in range(n)]
    frame = pd.DataFrame(rng.normal(size=(len(rows), 3)), columns=["x0", "x1", "x2"])
    frame["y"], frame["domain"] = [c for _, c in rows], [d for d, _ in rows]
    frame.to_parquet(path, index=False)
    return path


def test_shares_and_splits() -> None:
    y, e = np.repeat([0, 0, 1, 1], [500, 300, 200, 1000]), np.repeat([0, 1, 0, 1], [500, 300, 200, 1000])
    splits = draw_group_splits(y, e, GROUPS, share=0.95, holdout=0.2, seed=0)
    counts = [[int(((y == c) & (e == d) & (splits == s)).sum()) for s in range(3)] for c in (0, 1) for d in (0, 1)]
    # 285 : 15 and 570 : 30 are 19 : 1; 15 = 300 · 0.05 rounded down, and so on. The rest of a group is tested on.
    assert counts == [[300, 100, 100], [15, 60, 225], [31, 40, 129], [600, 200, 200]]
    again = draw_group_splits(y, e, GROUPS, share=0.95, holdout=0.2, seed=0)
    other = draw_group_splits(y, e, GROUPS, share=0.95, holdout=0.2, seed=1)
    assert (splits == again).all()
    assert (splits != other).any()


def test_shares_of_three_classes() -> None:
    y, e = np.divmod(np.repeat(np.arange(9), 100), 3)
    splits = draw_group_splits(y, e, [str(k) for k in range(9)], share=0.8, holdout=0.1, seed=0)
    counts = np.array([[((y == c) & (e == d) & (splits == 0)).sum() for d in range(3)] for c in range(3)])
    assert (counts == np.where(np.eye(3, dtype=bool), 80, 10)).all()


def test_images(tmp_path: Path) -> None:
    source = write_image_folder(tmp_path / "images", COUNTS)
    made = make_group_set(source, tmp_path / "set", **CHOICE, share=0.75)
    assert made.path == tmp_path / "set"
    assert made.group_names == GROUPS
    data = load_dataset(made.path)
    assert data.names == CHOICE["domains"]
    assert data.classes == CHOICE["classes"]
    assert data.group_names == GROUPS
    assert data.split_names == ("train", "val", "test")
    for domain, splits in data.domains.items():
        for number, (split, rows) in enumerate(splits.items()):
            assert isinstance(rows.inputs, ImageFiles)
            assert rows.groups is not None
            for name, group in zip(rows.inputs.names, rows.groups.tolist(), strict=True):
                file = (made.path / name).resolve()
                assert file.is_relative_to(source.resolve())
                assert GROUPS[group] == f"{file.parent.name}, {domain}", split
            sizes = np.bincount(rows.groups.numpy(), minlength=4)
            assert (sizes == np.where([g.endswith(domain) for g in GROUPS], made.counts[:, number], 0)).all()
    assert (made.counts > 0).all()
    assert made.counts.sum() == 150
    assert [path.name for path in made.path.iterdir()] == ["groups.csv"]
    (tmp_path / "moved").mkdir()
    for name in ("images", "set"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert len(load_dataset(tmp_path / "moved" / "set").names) == 2


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_tables(suffix: str, tmp_path: Path) -> None:
    path = feature_table(tmp_path / "features.parquet")
    if suffix == "npz":  # classes and domains as indices with names
        frame = pd.read_parquet(path)
        classes, domains = sorted(set(frame["y"])), sorted(set(frame["domain"]))
        y, e = [classes.index(v) for v in frame["y"]], [domains.index(v) for v in frame["domain"]]
        path = tmp_path / "features.npz"
        X = frame[["x0", "x1", "x2"]].to_numpy().astype(np.float16)
        np.savez(path, X=X, y=y, domain=e, classes=classes, domains=domains)
    made = make_group_set(path, tmp_path / "set", **CHOICE, share=0.75)
    assert made.path == tmp_path / "set" / "features.parquet"
    data = ProbeData.from_file(made.path)
    assert set(data.group_names) == set(GROUPS)
    sizes = {
        name: [int((data.groups[data.rows(split)] == code).sum()) for split in ("train", "val", "test")]
        for code, name in enumerate(data.group_names)
    }
    assert sizes == dict(zip(GROUPS, made.counts.tolist(), strict=True))
    assert set(load_dataset(made.path).group_names or ()) == set(GROUPS)


def test_a_changed_split_changes_the_stamp(tmp_path: Path) -> None:
    made = make_group_set(write_image_folder(tmp_path / "images", COUNTS), tmp_path / "set", **CHOICE, share=0.5)
    before = data_stamp(str(made.path))
    listed = made.path / "groups.csv"
    listed.write_text(listed.read_text().replace(",val", ",train", 1))
    assert data_stamp(str(made.path)) != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": ("dog", "hare")}, r"images has no class 'hare'\. It has: cat, dog, polar bear\."),
        ({"domains": ("photo", "line-art")}, r"no domain 'line-art'\. Did you mean 'line art'\?"),
        ({"classes": ("dog", "dog")}, r"'classes' should be two or more different names, but are dog, dog\."),
        ({"classes": ("dog", "cat", "polar bear")}, r"as many classes as domains.* 3 classes and 2 domains"),
        ({"share": 1.0}, r"'share' should be above 0 and below 1, but is 1\.0"),
        ({"holdout": 0.5}, r"'holdout' should be above 0 and below 0\.5"),
        ({"share": 0.99}, r"Group 'dog, line art' should have training rows, but a share of 0\.99 leaves none"),
        (
            {"domains": ("photo", "oil")},
            r"Group 'dog, oil' should have a row for each of train, val and test, but has 2",
        ),
    ],
)
def test_bad_choices_are_named(options: dict[str, object], message: str, tmp_path: Path) -> None:
    source = write_image_folder(tmp_path / "images", COUNTS)
    with pytest.raises(ValueError, match=message):
        make_group_set(source, tmp_path / "set", **{**CHOICE, **options})
    assert not (tmp_path / "set").exists()


def test_data_that_cannot_be_grouped(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"made of image files or of a table.*colored-digits is neither"):
        make_group_set("colored-digits", tmp_path / "set", classes=("0", "1"), domains=("+90%", "+80%"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ValueError, match=r"should be a new folder, but .*full is not empty"):
        make_group_set("pacs", tmp_path / "full", **CHOICE)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a.jpg", "dog", "", "val"), r"groups\.csv: row 2 has no domain\. Give it one, or remove the row\."),
        (("a.jpg", "dog", "snow", "valid"), r"row 2 should have one of train, val, test, but has 'valid'"),
        (("b.jpg", "dog", "snow", "val"), r"1 of 2 images are missing, .*b\.jpg first\. Put them there, or remove"),
    ],
)
def test_bad_lists_are_named(row: tuple[str, ...], message: str, tmp_path: Path) -> None:
    write_image(tmp_path / "a.jpg")
    header = ("file", "class", "domain", "split")
    write_csv(tmp_path / "groups.csv", header, [("a.jpg", "cat", "grass", "train"), row])
    with pytest.raises(ValueError, match=message):
        load_dataset(tmp_path)
