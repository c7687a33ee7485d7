"""Labels correlated with a spurious attribute, evaluated by the worst group: Waterbirds, CelebA, folders of images."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from momentalign._csv import plain_cell
from momentalign._datasets import GROUPS_FILE, SPLIT_NAMES
from momentalign._validation import check_blanks
from momentalign.data._dataset import DomainDataset, Split
from momentalign.data._items import ImageFiles, Items

_WATERBIRDS = "waterbird_complete95_forest2water2"


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

    Group index = number of attribute values · class + attribute, the order of the published sets. `splits` is 0, 1 or 2
    for "train", "val" and "test".
    """
    y, a, where = (torch.tensor(column, dtype=torch.long) for column in (targets, attributes, splits))
    rows = Split(inputs, y, len(attribute_names) * y + a)
    domains = {
        attribute: {
            split: rows.rows(((a == value) & (where == number)).nonzero().squeeze(1))
            for number, split in enumerate(SPLIT_NAMES)
        }
        for value, attribute in enumerate(attribute_names)
    }
    groups = [f"{label}, {attribute}" for label in classes for attribute in attribute_names]
    return DomainDataset(name, len(classes), domains, classes, groups)


def read_waterbirds(root: Path) -> DomainDataset:
    """Waterbirds: the label is the bird, the attribute and domain the background.

    The published set has 4,795 training, 1,199 validation and 5,794 test rows.
    """
    table = root / _WATERBIRDS / "metadata.csv"
    names, y, splits, places = read_columns(table, ("img_filename", "y", "split", "place"), "waterbirds")
    return group_dataset(
        "waterbirds",
        image_files(names, table.parent, "waterbirds"),
        positions(y, table, (0, 1)),
        positions(places, table, (0, 1)),
        positions(splits, table, (0, 1, 2)),
        classes=("landbird", "waterbird"),
        attribute_names=("land", "water"),
    )


def read_celeba(root: Path) -> DomainDataset:
    """CelebA: the label is blond hair, the attribute and domain whether the person is a man.

    The images are in `celeba/img_align_celeba`, or in a folder of that name within, as Kaggle packs them; the tables
    `list_attr_celeba` and `list_eval_partition` are .csv as on Kaggle or .txt as the authors distribute them. The
    published set has 162,770 training, 19,867 validation and 19,962 test rows.
    """
    folder = root / "celeba"
    attributes, partition = (
        _csv_or_txt(folder / f"{name}.csv") for name in ("list_attr_celeba", "list_eval_partition")
    )
    names, blond, male = read_columns(attributes, ("image_id", "Blond_Hair", "Male"), "celeba")
    images, parts = read_columns(partition, ("image_id", "partition"), "celeba")
    splits = dict(zip(images, positions(parts, partition, (0, 1, 2)), strict=True))
    if missing := [name for name in names if name not in splits]:
        raise ValueError(
            f"{partition} should have a split for every image of {attributes.name}, but {len(missing)} are missing, "
            f"{missing[0]} first."
        )
    inside = "img_align_celeba"
    if (folder / inside / inside).is_dir():
        inside = f"{inside}/{inside}"
    return group_dataset(
        "celeba",
        image_files([f"{inside}/{name}" for name in names], folder, "celeba"),
        positions(blond, attributes, (-1, 1)),
        positions(male, attributes, (-1, 1)),
        [splits[name] for name in names],
        classes=("not blond", "blond"),
        attribute_names=("female", "male"),
    )


def read_group_folder(folder: Path) -> DomainDataset:
    """Read a folder with `groups.csv`: file, class, domain and split of each image, which may be anywhere.

    Classes and domains are in order of first appearance.
    """
    path = folder / GROUPS_FILE
    header = ("file", "class", "domain", "split")
    columns = [[plain_cell(cell) for cell in column] for column in read_columns(path, header, folder.name)]
    for name, column in zip(header, columns, strict=True):
        if not all(column):
            raise ValueError(f"{path}: row {column.index('') + 1} has no {name}. Give it one, or remove the row.")
    known = *(tuple(dict.fromkeys(column)) for column in columns[1:3]), SPLIT_NAMES
    if not columns[0]:
        raise ValueError(f"{path} should have a row for each image, but has none.")
    for name, labels in zip(header[1:3], known[:2], strict=True):
        check_blanks(f"{path.name}: {name}", labels)
    remedy = f"Put them there, or remove their rows from {GROUPS_FILE}."
    images = image_files(columns[0], folder, folder.name, remedy)
    y, a, splits = (positions(column, path, labels) for column, labels in zip(columns[1:], known, strict=True))
    return group_dataset(folder.resolve().name, images, y, a, splits, classes=known[0], attribute_names=known[1])


def read_columns(path: Path, columns: Sequence[str], dataset: str) -> list[list[str]]:
    """Columns of a CSV file, or of a .txt file with spaces, as text."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Run 'momentalign data fetch {dataset}', or put it there.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = [*filter(None, map(str.split, file) if path.suffix == ".txt" else csv.reader(file))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} should be a CSV file in UTF-8, but cannot be read: {error}.") from None
    if path.name == "list_attr_celeba.txt":  # the number of images, the names of the attributes, then the images
        lines = [["image_id", *names] for names in lines[1:2]] + lines[2:]
    elif path.suffix == ".txt":  # no header
        lines = [list(columns), *lines]
    header = [name.strip() for name in lines[0]] if lines else []
    if missing := [name for name in columns if name not in header]:
        raise ValueError(
            f"{path} should have the columns {', '.join(columns)}, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Found: {', '.join(header) or 'nothing'}."
        )
    for number, line in enumerate(lines):
        if len(line) != len(header):
            raise ValueError(f"{path}: row {number} should have {len(header)} values, but has {len(line)}.")
    return [[line[k].strip() for line in lines[1:]] for k in map(header.index, columns)]


def positions(column: Sequence[str], path: Path, known: Sequence[object]) -> list[int]:
    """Position of each value of a column in `known`; ValueError for another value."""
    places = {str(value): place for place, value in enumerate(known)}
    for number, value in enumerate(column):
        if value not in places:
            raise ValueError(f"{path}: row {number + 1} should have one of {', '.join(places)}, but has {value!r}.")
    return [places[value] for value in column]


def image_files(names: Sequence[str], root: Path, dataset: str, remedy: str = "") -> ImageFiles:
    """Images named by a table; ValueError with a remedy if any is missing, by default to fetch the data set."""
    folders = {os.path.dirname(name) for name in names}  # noqa: PTH120 (as text, and many)
    present = {
        os.path.join(folder, name)  # noqa: PTH118
        for folder in folders
        if (root / folder).is_dir()
        for name in os.listdir(root / folder)  # noqa: PTH208
    }
    if missing := [name for name in names if name not in present]:
        remedy = remedy or f"Run 'momentalign data verify {dataset}', or fetch it again."
        raise ValueError(
            f"{dataset}: {len(missing)} of {len(names)} images are missing, {root / missing[0]} first. {remedy}"
        )
    return ImageFiles.from_names(names, root)


def _csv_or_txt(path: Path) -> Path:
    text = path.with_suffix(".txt")
    return text if text.exists() and not path.exists() else path
