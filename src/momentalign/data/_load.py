"""Load data sets by name or path."""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

from momentalign._datasets import DATASET_NAMES, GROUPS_FILE
from momentalign._format import join_first, suggest
from momentalign._table_spec import is_table, spec_path
from momentalign._validation import check_holdout
from momentalign.data._convert import table_dataset
from momentalign.data._dataset import DomainDataset
from momentalign.data._digits import ColoredDigits, ColoredMNIST, RotatedDigits, RotatedMNIST
from momentalign.data._folders import read_image_folder, without_bad_files
from momentalign.data._groups import read_celeba, read_group_folder, read_waterbirds
from momentalign.data._multinli import read_multinli
from momentalign.data._sources import SOURCES, data_folder
from momentalign.tables import read_table


def _read_benchmark(name: str, trial: int, root: Path, holdout: float) -> DomainDataset:
    """An image benchmark of the DomainBed protocol; the contents of its folder are its domains, in published order."""
    folder, domains = root / SOURCES[name].folder, SOURCES[name].contents
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder} does not exist. Run 'momentalign data fetch {name}', or put the folder there, with "
            f"{', '.join(domains)} in it."
        )
    return read_image_folder(folder, name=name, domains=domains, trial=trial, holdout=holdout)


_BENCHMARKS = ("vlcs", "pacs", "office-home", "terra-incognita", "domain-net")

# Trial, data folder, share of the "out" split -> data set. Group sets have published splits.
_LOADERS: dict[str, Callable[[int, Path, float], DomainDataset]] = {
    "colored-digits": lambda trial, root, holdout: ColoredDigits(trial, holdout=holdout),
    "rotated-digits": lambda trial, root, holdout: RotatedDigits(trial, holdout=holdout),
    "colored-mnist": lambda trial, root, holdout: ColoredMNIST(trial, root, holdout=holdout),
    "rotated-mnist": lambda trial, root, holdout: RotatedMNIST(trial, root, holdout=holdout),
    **{name: partial(_read_benchmark, name) for name in _BENCHMARKS},
    "waterbirds": lambda trial, root, holdout: read_waterbirds(root),
    "celeba": lambda trial, root, holdout: read_celeba(root),
    "multinli": lambda trial, root, holdout: read_multinli(root),
}


def dataset_names() -> tuple[str, ...]:
    """Names of the built-in data sets."""
    return DATASET_NAMES


def load_dataset(
    name: str | Path,
    *,
    trial: int = 0,
    root: str | Path | None = None,
    holdout: float = 0.2,
    skip_bad: bool = False,
) -> DomainDataset:
    """Load a data set.

    Args:
        name: One of :func:`dataset_names`, the path of a folder `domain/class/image`, of a folder of
            images with `groups.csv`, or of a table with columns `y` and `domain`. :func:`table_spec` names tables with
            other columns, separators or encodings.
        trial: The trial's seed, of the split and of everything else random about the data.
        root: Data folder; see :func:`data_folder`.
        holdout: Share of each domain in its "out" split, unless splits are published with the data.
        skip_bad: Decode all image files first and skip those that cannot be decoded, with a warning.

    Returns:
        The data set. Warns of classes that a domain lacks and of splits without rows.

    Raises:
        ValueError: No such data set, or files of another structure.
    """
    check_holdout(holdout)
    if name in _LOADERS:
        dataset = _LOADERS[str(name)](trial, data_folder(root), holdout)
    else:
        dataset = _from_path(str(name), trial, holdout)
    if skip_bad:
        dataset = without_bad_files(dataset)
    for sentence in _unusual(dataset, holdout):
        warnings.warn(f"{dataset.name}: {sentence}", stacklevel=2)
    return dataset


def _from_path(name: str, trial: int, holdout: float) -> DomainDataset:
    path = Path(spec_path(name)).expanduser()
    if (path / GROUPS_FILE).is_file():
        return read_group_folder(path)
    if path.is_dir():
        return read_image_folder(path, name=path.resolve().name, trial=trial, holdout=holdout)
    if path.is_file():
        return table_dataset(read_table(name), name=path.name, trial=trial, holdout=holdout)
    if is_table(path) or len(path.parts) > 1:
        raise FileNotFoundError(f"{path} does not exist.")
    raise ValueError(
        f"There is no data set and no folder or file {str(path)!r}.{suggest(str(path), _LOADERS)} "
        f"Data sets: {', '.join(_LOADERS)}."
    )


def _unusual(dataset: DomainDataset, holdout: float) -> list[str]:
    """Warnings about valid but unusual data, one sentence each."""
    sentences = []
    for domain, splits in dataset.domains.items():
        if empty := [split for split, rows in splits.items() if not len(rows) and (split != "out" or holdout > 0)]:
            sentences.append(f"domain {domain!r} has no rows in {' and '.join(repr(split) for split in empty)}.")
        if not dataset.is_regression:
            present = {label for rows in splits.values() for label in rows.targets.unique().tolist()}
            if missing := [name for k, name in enumerate(dataset.classes) if k not in present]:
                sentences.append(
                    f"domain {domain!r} has no rows of {len(missing)} of the classes: {join_first(missing)}."
                )
    return sentences
