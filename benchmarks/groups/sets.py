"""Sets of the study: rows with a class and an attribute, whose pairs are the groups, and their splits."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.estimators.sets import feature_columns, read_npz
from momentalign.data import draw_group_splits, seed_hash

SPLITS = {"train": 0.5, "validation": 0.2, "test": 0.3}
"""Share of every group's rows of a table in each split."""
MOST_ROWS = 20_000
"""Larger tables are thinned to this number at random, with seed 0."""
SHARE, HOLDOUT = 0.95, 0.2
"""Of a set made of two classes and two domains, as of `momentalign data groups`."""
SETTLE = ("diabetes-readmission", "hmda-denial", "law-school-bar", "pacs-dog-elephant")
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


class GroupStudySet(NamedTuple):
    """How a set is read; `classes` and `domains` are those that go together in the training rows, where any do."""

    title: str
    read: Callable[[Path], GroupRows]
    classes: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


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


def _table(name: str, title: str) -> GroupStudySet:
    return GroupStudySet(title, lambda root: read_group_table(root / "tables" / f"{name}.parquet"))


def _pacs(classes: tuple[str, str], styles: tuple[str, str]) -> GroupStudySet:
    title = f"PACS features: {' or '.join(classes)}, {' or '.join(styles)}"
    return GroupStudySet(title, lambda root: read_pacs(root, classes, styles), classes, styles)


SETS = {
    "diabetes-readmission": _table("diabetes-readmission", "Diabetic in-patients: readmitted, by race"),
    "german-credit": _table("german-credit", "German credit: good or bad, by sex"),
    "hmda-denial": _table("hmda-denial", "Mortgage applications: denied, by race"),
    "law-school-bar": _table("law-school-bar", "Law students: passing the bar, by race"),
    "pacs-dog-elephant": _pacs(("dog", "elephant"), ("photo", "sketch")),
    "pacs-giraffe-horse": _pacs(("giraffe", "horse"), ("art_painting", "cartoon")),
    "pacs-guitar-person": _pacs(("guitar", "person"), ("cartoon", "sketch")),
}


@cache
def read_set(name: str, root: Path) -> GroupRows:
    """Read all rows of a set, once per process."""
    return SETS[name].read(root)


def split_rows(name: str, rows: GroupRows, seed: int) -> dict[str, NDArray[np.intp]]:
    """Draw the rows of each split within every group; those of a set made of domains as `momentalign data groups`."""
    classes, domains = SETS[name].classes, SETS[name].domains
    if classes:
        targets, styles = (
            np.argmax(labels[:, None] == np.array(names), axis=1)
            for labels, names in ((rows.targets, classes), (rows.attributes, domains))
        )
        names = [f"{label}, {domain}" for label in classes for domain in domains]
        drawn = draw_group_splits(targets, styles, names, share=SHARE, holdout=HOLDOUT, seed=seed_hash("groups", seed))
        return {split: np.flatnonzero(drawn == number) for number, split in enumerate(SPLITS)}
    rng, ends = np.random.default_rng(seed), np.cumsum(list(SPLITS.values()))[:-1]
    members = [rng.permutation(np.flatnonzero(rows.groups == group)) for group in np.unique(rows.groups)]
    parts = [np.split(each, np.round(ends * len(each)).astype(int)) for each in members]
    return {split: np.sort(np.concatenate(part)) for split, part in zip(SPLITS, zip(*parts, strict=True), strict=True)}
