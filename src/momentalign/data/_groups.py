"""Labels correlated with a spurious attribute, evaluated by the worst group: Waterbirds, CelebA, folders of images."""

import csv
import os
from collections.abc import Iterable, Sequence
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
    domains: dict[str, dict[str, Split]] = {}
    for value, attribute in enumerate(attribute_names):
        domains[attribute] = {
            split: rows.rows(((a == value) & (where == number)).nonzero().squeeze(1))
            for number, split in enumerate(SPLIT_NAMES)
        }
    groups = [f"{label}, {attribute}" for label in classes for attribute in attribute_names]
    return DomainDataset(name, len(classes), domains, classes, groups)


def read_waterbirds(root: Path) -> DomainDataset:
    """Waterbirds: the label is the bird, the attribute and domain the background.

    The published set has 4,795 training, 1,199 validation and 5,794 test rows.
    """
    folder = root / _WATERBIRDS
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

    The images are in `celeba/img_align_celeba`, or in a folder of that name within, as Kaggle packs them; the tables
    `list_attr_celeba` and `list_eval_partition` are .csv as on Kaggle or .txt as the authors distribute them. The
    published set has 162,770 training, 19,867 validation and 19,962 test rows.
    """
    folder = root / "celeba"
    attribute_file, attributes = _celeba_table(folder, "list_attr_celeba", ("image_id", "Blond_Hair", "Male"))
    partition_file, partition = _celeba_table(folder, "list_eval_partition", ("image_id", "partition"))
    numbers = dict(zip((row[0] for row in partition), integers(partition, 1, partition_file, (0, 1, 2)), strict=True))
    if missing := [row[0] for row in attributes if row[0] not in numbers]:
        raise ValueError(
            f"{partition_file} should have a split for every image of {attribute_file.name}, but {len(missing)} "
            f"are missing, {missing[0]} first."
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


def read_group_folder(folder: Path) -> DomainDataset:
    """Read a folder of images with `groups.csv`: file, class, domain and split of each image.

    Classes and domains are in order of first appearance.
    """
    path = folder / GROUPS_FILE
    columns = read_columns(path, ("file", "class", "domain", "split"), folder.name)
    rows = [tuple(map(plain_cell, row)) for row in columns]
    if not rows:
        raise ValueError(f"{path} should have a row for each image, but has none.")
    for number, row in enumerate(rows):
        for name, value in zip(("file", "class", "domain"), row[:3], strict=True):
            if not value:
                raise ValueError(f"{path}: row {number + 1} has no {name}. Give it one, or remove the row.")
        if row[3] not in SPLIT_NAMES:
            raise ValueError(
                f"{path}: row {number + 1} should be of split {', '.join(SPLIT_NAMES)}, but has {row[3]!r}."
            )
    remedy = f"Put them there, or remove their rows from {GROUPS_FILE}."
    classes, attributes = (tuple(dict.fromkeys(row[k] for row in rows)) for k in (1, 2))
    for name, labels in (("class", classes), ("domain", attributes)):
        check_blanks(f"{path.name}: {name}", labels)
    return group_dataset(
        folder.resolve().name,
        image_files([row[0] for row in rows], folder, folder.name, remedy),
        [classes.index(row[1]) for row in rows],
        [attributes.index(row[2]) for row in rows],
        [SPLIT_NAMES.index(row[3]) for row in rows],
        classes=classes,
        attribute_names=attributes,
    )


def read_columns(path: Path, columns: Sequence[str], dataset: str) -> list[tuple[str, ...]]:
    """Columns of a CSV file with a header, as text: one tuple per row."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Run 'momentalign data fetch {dataset}', or put it there.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return _pick(csv.reader(file), columns, path)
    except UnicodeDecodeError:
        raise ValueError(f"{path} should be text in UTF-8, but is in another encoding, or not text.") from None
    except csv.Error as error:
        raise ValueError(f"{path} should be a CSV file, but cannot be read: {error}.") from None


def integers(rows: Sequence[tuple[str, ...]], column: int, path: Path, allowed: Sequence[int]) -> list[int]:
    """One column as integers; ValueError for any that is not allowed."""
    texts = {str(value): value for value in allowed}
    for number, row in enumerate(rows):
        if row[column] not in texts:
            raise ValueError(
                f"{path}: row {number + 1} should have one of {', '.join(texts)}, but has {row[column]!r}."
            )
    return [texts[row[column]] for row in rows]


def image_files(names: Sequence[str], root: Path, dataset: str, remedy: str = "") -> ImageFiles:
    """Images named by a table; ValueError with a remedy if any is missing, by default to fetch the data set."""
    folders = {name.rpartition("/")[0] for name in names}
    present = {f"{folder}/{name}" if folder else name for folder in folders for name in _names_in(root / folder)}
    if missing := [name for name in names if name not in present]:
        remedy = remedy or f"Run 'momentalign data verify {dataset}', or fetch it again."
        raise ValueError(
            f"{dataset}: {len(missing)} of {len(names)} images are missing, {root / missing[0]} first. {remedy}"
        )
    return ImageFiles.from_names(names, root)


def _celeba_table(folder: Path, stem: str, columns: Sequence[str]) -> tuple[Path, list[tuple[str, ...]]]:
    """A table of CelebA: .csv with a header, or .txt with columns separated by spaces."""
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


def _names_in(folder: Path) -> frozenset[str]:
    return frozenset(os.listdir(folder)) if folder.is_dir() else frozenset()  # noqa: PTH208 (names only, and many)
