"""Group sets made from other data: classes correlated with domains in the training rows."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._csv import csv_text
from momentalign._datasets import GROUPS_FILE, SPLIT_NAMES
from momentalign._files import new_folder
from momentalign._format import join_first, suggest
from momentalign._outputs import check_folder
from momentalign._seeds import seed_hash
from momentalign._table_spec import TABLE_SUFFIXES, is_table, spec_path
from momentalign._types import Integers
from momentalign._validation import check_names
from momentalign.data._items import ImageFiles
from momentalign.data._load import load_dataset
from momentalign.tables import label_names, read_table

_TABLE = "features.parquet"


@dataclass(frozen=True, eq=False)
class GroupSet:
    """A group set on disk.

    Args:
        path: The folder of images, or the table; a name for `load_dataset`.
        group_names: "class, domain", shape (G,).
        counts: Rows of each group in train, val and test, shape (G, 3).
    """

    path: Path
    group_names: tuple[str, ...]
    counts: NDArray[np.int64]


def make_group_set(
    name: str | Path,
    out: str | Path,
    *,
    classes: Sequence[str],
    domains: Sequence[str],
    share: float = 0.95,
    holdout: float = 0.2,
    trial: int = 0,
    root: str | Path | None = None,
) -> GroupSet:
    """Make a data set whose training rows correlate classes with domains, as Waterbirds does.

    A `share` of the training rows of the k-th class is of the k-th domain, the rest is of the others. Groups are the
    pairs of class and domain. `holdout` of the rows of every group are "val" and as many "test"; what the share leaves
    over is added to "test", so that the scarce groups are measured on as many rows as possible.

    Args:
        name: A data set of image files, by name or folder, or a table as in :func:`load_dataset`.
        out: Folder to make, with `groups.csv`, which lists the images where they are, or `features.parquet`.
        classes: Two or more classes.
        domains: As many domains.
        share: Above 0 and below 1; 1 over the number of domains is no correlation.
        holdout: Share of every group's rows in "val", and again in "test".
        trial: Seed of the rows.
        root: Data folder.

    Returns:
        Path, groups and their numbers of rows.

    Raises:
        ValueError: No such class or domain, a group without enough rows, or a folder that is not empty.
    """
    folder = Path(out).expanduser()
    check_folder(folder)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"'--out' should be a new folder, but {folder} is not empty. Choose another, or remove it.")
    _check_names(classes, domains)
    if not 0 < share < 1:
        raise ValueError(
            f"'share' should be above 0 and below 1, but is {share}. Without it some groups have no training rows."
        )
    if not 0 < holdout < 0.5:
        raise ValueError(f"'holdout' should be above 0 and below 0.5, but is {holdout}.")
    group_names = tuple(f"{label}, {domain}" for label in classes for domain in domains)
    table = read_table(str(name)) if is_table(spec_path(str(name))) else None
    if table is None:
        source, files, labels, places = _image_rows(name, root)
    else:
        source, files, labels, places = table.path.name, np.array([]), label_names(table.target), table.domains
    y, e = _codes(source, "class", np.asarray(labels), classes), _codes(source, "domain", np.asarray(places), domains)
    chosen = np.flatnonzero((y >= 0) & (e >= 0))
    chosen = chosen[np.lexsort((chosen, e[chosen], y[chosen]))]
    y, e = y[chosen], e[chosen]
    codes = draw_group_splits(y, e, group_names, share=share, holdout=holdout, seed=seed_hash("groups", trial))
    groups = y * len(domains) + e
    counts = np.stack([np.bincount(groups[codes == code], minlength=len(group_names)) for code in range(3)], axis=1)
    columns = {"class": np.array(classes)[y], "domain": np.array(domains)[e], "split": np.array(SPLIT_NAMES)[codes]}
    with new_folder(folder) as made:
        if table is None:
            listed = [os.path.relpath(file, made.resolve()) for file in files[chosen]]  # a moved tree stays whole
            rows = zip(listed, *(column.tolist() for column in columns.values()), strict=True)
            (made / GROUPS_FILE).write_text(csv_text([("file", *columns), *rows]), encoding="utf-8", newline="")
        else:
            columns |= {"y": columns.pop("class"), "group": np.array(group_names)[groups]}
            if taken := columns.keys() & set(table.features.columns):
                raise ValueError(f"{source} should not have a feature named '{min(taken)}'. Rename it.")
            table.features.iloc[chosen].assign(**columns).to_parquet(made / _TABLE, index=False)
    return GroupSet(folder if table is None else folder / _TABLE, group_names, counts)


def draw_group_splits(
    targets: Integers,
    domains: Integers,
    group_names: Sequence[str],
    *,
    share: float,
    holdout: float,
    seed: int,
) -> NDArray[np.int64]:
    """Split of each row, 0 train, 1 val, 2 test, shape (n,); see :func:`make_group_set`.

    `targets` and `domains` are indices below K, and `group_names` those of the K² groups, for messages.
    """
    number = round(len(group_names) ** 0.5)
    random = np.random.default_rng(seed)
    splits = np.full(len(targets), 2, dtype=np.int64)
    for label in range(number):
        left = []
        for domain in range(number):
            rows = random.permutation(np.flatnonzero((targets == label) & (domains == domain)))
            held_out = max(1, round(holdout * len(rows)))
            if len(rows) < 2 * held_out + 1:
                raise ValueError(
                    f"Group '{group_names[label * number + domain]}' should have a row for each of train, val and "
                    f"test, but has {len(rows)}. Choose another class or domain, or a smaller holdout."
                )
            splits[rows[:held_out]] = 1
            left.append(rows[2 * held_out :])
        shares = np.full(number, (1 - share) / (number - 1))
        shares[label] = share
        total = min(len(rows) / part for rows, part in zip(left, shares, strict=True))
        for domain, (rows, part) in enumerate(zip(left, shares, strict=True)):
            # Rounding keeps 0.95 · 100 from becoming 94.
            size = min(len(rows), int(round(total * part, 9)))
            if size < 1:
                raise ValueError(
                    f"Group '{group_names[label * number + domain]}' should have training rows, but a share of "
                    f"{share:g} leaves none of about {total:.0f}. Use a share closer to {1 / number:g}."
                )
            splits[rows[:size]] = 0
    return splits


def _image_rows(name: str | Path, root: str | Path | None) -> tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Name of a data set of image files; path, class and domain of each."""
    with warnings.catch_warnings():
        # Classes and domains that are not chosen may lack rows; those that are chosen are checked.
        warnings.simplefilter("ignore", UserWarning)
        data = load_dataset(name, root=root)
    if data.group_names is not None:
        raise ValueError(f"{data.name} has groups already. Use it as it is, or start from another data set.")
    rows: list[tuple[str, str, str]] = []
    for domain, splits in data.domains.items():
        found: list[tuple[str, str, str]] = []
        for part in splits.values():
            if not isinstance(part.inputs, ImageFiles):
                raise ValueError(
                    f"A group set is made of image files or of a table ({', '.join(TABLE_SUFFIXES)}), but {data.name} "
                    "is neither."
                )
            folder = part.inputs.root.resolve()
            for file, label in zip(part.inputs.names, part.targets.tolist(), strict=True):
                found.append((str(folder / file), data.classes[label], domain))
        rows += sorted(found)
    files, labels, domains = (np.array(column) for column in zip(*rows, strict=True))
    return data.name, files, labels, domains


def _codes(source: str, what: str, labels: NDArray[Any], names: Sequence[str]) -> Integers:
    """Index of each row's class or domain in `names`, −1 for others."""
    known = sorted(set(labels.tolist()))
    codes = np.full(len(labels), -1, dtype=np.int64)
    for code, name in enumerate(names):
        if name not in known:
            raise ValueError(f"{source} has no {what} '{name}'.{suggest(name, known)} It has: {join_first(known, 20)}.")
        codes[labels == name] = code
    return codes


def _check_names(classes: Sequence[str], domains: Sequence[str]) -> None:
    for what, names in (("classes", classes), ("domains", domains)):
        if len(set(check_names(what, names))) < len(names) or len(names) < 2:
            raise ValueError(f"'{what}' should be two or more different names, but are {', '.join(names) or 'none'}.")
    if len(classes) != len(domains):
        raise ValueError(
            f"There should be as many classes as domains, each class going with one domain, but there are "
            f"{len(classes)} classes and {len(domains)} domains."
        )
