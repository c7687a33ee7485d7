"""Sets of the study: rows with a class and an attribute, whose pairs are the groups, and their splits."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.estimators.sets import feature_columns, read_npz

SPLITS = {"train": 0.5, "validation": 0.2, "test": 0.3}
"""Share of every group's rows in each split."""
MOST_ROWS = 20_000
"""Larger tables are thinned to this number at random, with seed 0."""
SHARE = 0.95
"""Of a class's training rows in the domain that goes with it, where a set is made of domains."""
SETTLE = ("diabetes-readmission", "hmda-denial", "pacs-dog-elephant")
"""Sets that settled the methods' defaults; the others confirm them."""


class GroupRows(NamedTuple):
    """A data frame of features (n, d), classes and attributes (n,)."""

    features: Any
    targets: NDArray[np.str_]
    attributes: NDArray[np.str_]

    @property
    def groups(self) -> NDArray[np.str_]:
        """Names (n,) such as `fail, white`."""
        return np.array([f"{a}, {b}" for a, b in zip(self.targets, self.attributes, strict=True)])


class GroupSet(NamedTuple):
    """How a set is read; `pairs` are the groups of a class and the domain that goes with it, where there are any."""

    title: str
    read: Callable[[Path], GroupRows]
    pairs: tuple[str, ...] = ()


def read_group_table(path: Path) -> GroupRows:
    """A table with columns `target` and `attribute`, which stays a feature."""
    import pandas as pd

    table = pd.read_parquet(path)
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=0).reset_index(drop=True)
    return GroupRows(feature_columns(table), table["target"].to_numpy(str), table["attribute"].to_numpy(str))


def read_pacs(root: Path, classes: tuple[str, str], styles: tuple[str, str]) -> GroupRows:
    """Features of the images of two classes in two styles, which are the attribute."""
    path = root / "pacs" / "PACS_efficientnet_lite0_1280d_fp16.npz"
    features, targets, domains = read_npz(path)
    with np.load(path, allow_pickle=False) as archive:
        names = archive["classes"][targets].astype(str)
    kept = np.isin(names, classes) & np.isin(domains, styles)
    return GroupRows(features[kept].reset_index(drop=True), names[kept], domains[kept].astype(str))


def _table(name: str, title: str) -> GroupSet:
    return GroupSet(title, lambda root: read_group_table(root / "tables" / f"{name}.parquet"))


def _pacs(classes: tuple[str, str], styles: tuple[str, str]) -> GroupSet:
    title = f"PACS features: {' or '.join(classes)}, {' or '.join(styles)}"
    pairs = tuple(f"{label}, {style}" for label, style in zip(classes, styles, strict=True))
    return GroupSet(title, lambda root: read_pacs(root, classes, styles), pairs)


SETS = {
    "diabetes-readmission": _table("diabetes-readmission", "Diabetic in-patients: readmitted, by race"),
    "german-credit": _table("german-credit", "German credit: good or bad, by sex"),
    "hmda-denial": _table("hmda-denial", "Mortgage applications: denied, by race"),
    "law-school-bar": _table("law-school-bar", "Law students: passing the bar, by race"),
    "pacs-dog-elephant": _pacs(("dog", "elephant"), ("photo", "sketch")),
    "pacs-giraffe-horse": _pacs(("giraffe", "horse"), ("art_painting", "cartoon")),
}


@cache
def read_set(name: str, root: Path) -> GroupRows:
    """Read all rows of a set, once per process."""
    return SETS[name].read(root)


def split_rows(name: str, groups: NDArray[np.str_], seed: int) -> dict[str, NDArray[np.intp]]:
    """Draw the rows of each split within every group; training rows of a set made of domains are thinned to its share.

    A class keeps its training rows in the domain that goes with it, or as many of them as the share allows, and rows of
    the other domain to fill the share.
    """
    rng = np.random.default_rng(seed)
    ends = np.cumsum(list(SPLITS.values()))[:-1]
    parts: dict[str, list[NDArray[np.intp]]] = {}
    for group in np.unique(groups):
        rows = rng.permutation(np.flatnonzero(groups == group))
        parts[str(group)] = np.split(rows, np.round(ends * len(rows)).astype(int))
    for pair in SETS[name].pairs:
        label = pair.partition(", ")[0]
        (other,) = (group for group in parts if group != pair and group.startswith(f"{label}, "))
        most = min(len(parts[pair][0]), round(len(parts[other][0]) * SHARE / (1 - SHARE)))
        parts[pair][0] = parts[pair][0][:most]
        parts[other][0] = parts[other][0][: round(most * (1 - SHARE) / SHARE)]
    return {
        split: np.sort(np.concatenate([each[number] for each in parts.values()])) for number, split in enumerate(SPLITS)
    }
