"""A run's data set: loaded once a process where runs follow one another, and what can be said of it."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from momentalign.data import DomainDataset, dataset_names, load_dataset


class DataFacts(NamedTuple):
    """What a configuration has to know of a data set; the same in every trial."""

    name: str
    names: tuple[str, ...]
    recipe: str
    is_regression: bool
    num_classes: int
    training_rows: Mapping[str, int]


def facts_of(data: DomainDataset) -> DataFacts:
    """Names and sizes of a data set."""
    split = training_split(data)
    rows = {name: len(splits[split]) if split in splits else 0 for name, splits in data.domains.items()}
    return DataFacts(data.name, data.names, data.training_recipe, data.is_regression, data.num_classes, rows)


def look_up(dataset: str, root: str | Path | None) -> DataFacts:
    """Names and sizes of a data set that has yet to be loaded; of a path every time, since it may have changed."""
    folder = None if root is None else str(root)
    return _look_up(dataset, folder) if dataset in dataset_names() else _look_up.__wrapped__(dataset, folder)


def open_dataset(
    dataset: str, *, trial: int, root: str | Path | None, holdout: float, skip_bad_files: bool = False
) -> DomainDataset:
    """Load a data set, or take the one that the last run of this process loaded if it is the same.

    Args:
        dataset: Name or path; a path is always read again, since it may have changed.
        trial: The trial's seed.
        root: Data folder.
        holdout: Share of each domain in its "out" split.
        skip_bad_files: Leave unreadable images out.

    Returns:
        The data set.
    """
    folder = None if root is None else str(root)
    if dataset in dataset_names():
        return _remembered(dataset, trial, folder, holdout, skip_bad_files)
    return _load(dataset, trial, folder, holdout, skip_bad_files)


def training_split(data: DomainDataset) -> str:
    """Name of the split that is trained on: "in", or "train" where a data set has its published splits."""
    return "train" if "train" in data.split_names else "in"


def validation_split(data: DomainDataset) -> str:
    """Name of the split that is held out of the training domains: "out" or "val"."""
    return "val" if "val" in data.split_names else "out"


def _load(dataset: str, trial: int, root: str | None, holdout: float, skip_bad_files: bool) -> DomainDataset:
    return load_dataset(dataset, trial=trial, root=root, holdout=holdout, skip_bad=skip_bad_files)


_remembered = lru_cache(maxsize=1)(_load)


@lru_cache(maxsize=16)
def _look_up(dataset: str, root: str | None) -> DataFacts:
    return facts_of(open_dataset(dataset, trial=0, root=root, holdout=0.2))
