"""Sets whose label goes with a spurious attribute, judged by the worst group: Waterbirds and CelebA."""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from momentalign.data._dataset import DomainDataset, Split
from momentalign.data._items import ImageFiles, Items

SPLITS = ("train", "val", "test")
WATERBIRDS_FOLDER = "waterbird_complete95_forest2water2"


def group_dataset(
    name: str,
    inputs: Items,
    targets: Sequence[int],
    attributes: Sequence[int],
    splits: Sequence[int],
    *,
    classes: Sequence[str],
    attribute_names: Sequence[str],
) -> DomainDataset:
    """Make a data set whose domains are the values of an attribute and whose groups are pairs of class and attribute.

    Group number = number of attributes · class + attribute, the order of the published sets.

    Args:
        name: What the data set is called.
        inputs: The rows, n of them.
        targets: Class of each row.
        attributes: Attribute of each row.
        splits: 0, 1 or 2 for "train", "val" and "test", for each row.
        classes: Names of the classes.
        attribute_names: Names of the attributes' values.

    Returns:
        The data set.
    """
    y, a, where = (torch.tensor(column, dtype=torch.long) for column in (targets, attributes, splits))
    rows = Split(inputs, y, len(attribute_names) * y + a)
    domains: dict[str, dict[str, Split]] = {}
    for value, attribute in enumerate(attribute_names):
        domains[attribute] = {
            split: rows.rows(_rows_with(a == value, where == number)) for number, split in enumerate(SPLITS)
        }
    groups = [f"{label}, {attribute}" for label in classes for attribute in attribute_names]
    return DomainDataset(name, len(classes), domains, classes, groups)


def read_waterbirds(root: Path) -> DomainDataset:
    """Waterbirds: the label is the bird, the attribute and domain the background.

    Args:
        root: Data folder, with `waterbird_complete95_forest2water2` and in it `metadata.csv` and the images.

    Returns:
        4,795 rows to train on, 1,199 to validate, 5,794 to test, in the published set.
    """
    folder = root / WATERBIRDS_FOLDER
    rows = read_columns(folder / "metadata.csv", ("img_filename", "y", "split", "place"), "waterbirds")
    images = image_files([row[0] for row in rows], folder, "waterbirds")
    y, splits, places = (
        integers(rows, k, folder / "metadata.csv", allowed) for k, allowed in ((1, (0, 1)), (2, (0, 1, 2)), (3, (0, 1)))
    )
    return group_dataset(
        "waterbirds", images, y, places, splits, classes=("landbird", "waterbird"), attribute_names=("land", "water")
    )


def read_celeba(root: Path) -> DomainDataset:
    """CelebA: the label is blond hair, the attribute and domain whether the person is a man.

    Args:
        root: Data folder, with `celeba` and in it `img_align_celeba` with the images (or a folder of that name
            within, as Kaggle packs it), `list_attr_celeba` and `list_eval_partition`, both either .csv as on Kaggle or
            .txt as its authors distribute them.

    Returns:
        162,770 rows to train on, 19,867 to validate, 19,962 to test, in the published set.
    """
    folder = root / "celeba"
    attribute_file, attributes = _celeba_table(folder, "list_attr_celeba", ("image_id", "Blond_Hair", "Male"))
    partition_file, partition = _celeba_table(folder, "list_eval_partition", ("image_id", "partition"))
    numbers = dict(zip((row[0] for row in partition), integers(partition, 1, partition_file, (0, 1, 2)), strict=True))
    if missing := [row[0] for row in attributes if row[0] not in numbers]:
        raise ValueError(
            f"{partition_file} should say of every image of {attribute_file.name} which split it is in, but "
            f"{len(missing)} are missing, {missing[0]} first."
        )
    images = "img_align_celeba"
    if (folder / images / images).is_dir():
        images = f"{images}/{images}"
    blond, male = ([int(v == 1) for v in integers(attributes, k, attribute_file, (-1, 1))] for k in (1, 2))
    return group_dataset(
        "celeba",
        image_files([f"{images}/{row[0]}" for row in attributes], folder, "celeba"),
        blond,
        male,
        [numbers[row[0]] for row in attributes],
        classes=("not blond", "blond"),
        attribute_names=("female", "male"),
    )


def read_columns(path: Path, columns: Sequence[str], dataset: str) -> list[tuple[str, ...]]:
    """Some columns of a CSV file with a header, as text.

    Args:
        path: The file.
        columns: Names of the columns.
        dataset: What to fetch if the file is missing.

    Returns:
        A tuple of the columns' values for each row.
    """
    _check_exists(path, dataset)
    with path.open(newline="", encoding="utf-8") as file:
        return _pick(csv.reader(file), columns, path)


def integers(rows: Sequence[tuple[str, ...]], column: int, path: Path, allowed: Sequence[int]) -> list[int]:
    """One column as integers, all of them among those allowed."""
    texts = {str(value): value for value in allowed}
    for number, row in enumerate(rows):
        if row[column] not in texts:
            raise ValueError(
                f"{path}: row {number + 1} should have one of {', '.join(texts)}, but has {row[column]!r}."
            )
    return [texts[row[column]] for row in rows]


def image_files(names: Sequence[str], root: Path, dataset: str) -> ImageFiles:
    """Images that a table names, after a look whether they are there."""
    folders = {name.rpartition("/")[0] for name in names}
    present = {f"{folder}/{name}" if folder else name for folder in folders for name in _names_in(root / folder)}
    if missing := [name for name in names if name not in present]:
        raise ValueError(
            f"{dataset}: {len(missing)} of {len(names)} images are missing, {root / missing[0]} first. Run "
            f"'momentalign data verify {dataset}', or fetch it again."
        )
    return ImageFiles.from_names(names, root)


def _celeba_table(folder: Path, stem: str, columns: Sequence[str]) -> tuple[Path, list[tuple[str, ...]]]:
    """A table of CelebA: .csv with a header, or .txt with columns between spaces."""
    path = folder / f"{stem}.csv"
    if path.exists() or not path.with_suffix(".txt").exists():
        return path, read_columns(path, columns, "celeba")
    path = path.with_suffix(".txt")
    lines = path.read_text(encoding="utf-8").splitlines()
    if stem == "list_attr_celeba":  # the number of images, the names of the attributes, then the images
        header, body = ["image_id", *lines[1].split()] if len(lines) > 1 else [], lines[2:]
    else:  # image and number, no header
        header, body = ["image_id", "partition"], lines
    return path, _pick([header, *(line.split() for line in body)], columns, path)


def _pick(lines: Iterable[list[str]], columns: Sequence[str], path: Path) -> list[tuple[str, ...]]:
    lines = iter(lines)
    header = [name.strip() for name in next(lines, [])]
    if missing := [name for name in columns if name not in header]:
        raise ValueError(
            f"{path} should have the columns {', '.join(columns)}, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Found: {', '.join(header) or 'nothing'}."
        )
    where = [header.index(name) for name in columns]
    rows = []
    for number, line in enumerate(lines):
        if len(line) != len(header):
            if not line:
                continue
            raise ValueError(f"{path}: row {number + 1} should have {len(header)} values, but has {len(line)}.")
        rows.append(tuple(line[k].strip() for k in where))
    return rows


def _rows_with(*conditions: Tensor) -> Tensor:
    return torch.stack(conditions).all(0).nonzero().squeeze(1)


def _names_in(folder: Path) -> frozenset[str]:
    return frozenset(os.listdir(folder)) if folder.is_dir() else frozenset()  # noqa: PTH208 (names only, and many)


def _check_exists(path: Path, dataset: str) -> None:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Run 'momentalign data fetch {dataset}', or put it there.")
