"""Tables of rows with a label and a domain, and groups and splits where there are any."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._format import join_names, pluralize
from momentalign.data._labels import names_of
from momentalign.data._table_files import NoColumnError, read_frame, with_names

_SPLITS = {
    "train": ("0", "train", "training"),
    "val": ("1", "val", "valid", "validation", "dev"),
    "test": ("2", "test"),
    "in": ("in",),
    "out": ("out",),
}
"""Splits by the names that they go by; 0, 1 and 2 are those of the group-labelled sets."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table, those without label or domain left out.

    Args:
        features: Data frame of the remaining columns, (n, columns).
        target: Labels, shape (n,).
        domains: Names of the domains, shape (n,).
        notes: What was done to the rows on the way, a sentence each.
        groups: Names of the groups, shape (n,), where there are any.
        splits: `"train"`, `"val"` or `"test"`, or `"in"` and `"out"`, shape (n,), where there are any.
        names: Names of classes, domains and groups in the file's own order, by `"target"`, `"domain"` and `"group"`,
            where the file has them.
    """

    features: Any
    target: NDArray[Any]
    domains: NDArray[np.str_]
    notes: tuple[str, ...]
    groups: NDArray[np.str_] | None = None
    splits: NDArray[np.str_] | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_table(
    path: str | Path,
    *,
    target: str = "y",
    domain: str = "domain",
    group: str | None = None,
    split: str | None = None,
) -> Table:
    """Read a table with a column for the label and one for the domain; all other columns are features.

    What `embed` writes is known without being named: columns `group` and `split` are taken for what they say, and
    `file` is no feature. In an npz file these are arrays beside a matrix `X`; where one of them holds indices and
    another array names (`classes` for `y`, `domains` for `domain`, `group_names` for `group`), the names are taken.

    Args:
        path: A .csv, .csv.gz, .parquet or .npz file.
        target: Column of the labels.
        domain: Column that says where a row came from.
        group: Column of the groups whose worst is asked for; None takes `group` where there is one.
        split: Column that says train, val or test, or 0, 1, 2, or in and out; None takes `split` where there is one.

    Returns:
        The table.

    Raises:
        ValueError: Not such a file, no such column, or no rows left.
    """
    path = Path(path)
    chosen = {"target": target, "domain": domain, "group": group, "split": split}
    _check_different({option: name for option, name in chosen.items() if name is not None})
    places = [chosen[option] or option for option in ("domain", "group")]
    frame = read_frame(path, [name or option for option, name in chosen.items()], names=places)
    notes = []
    for option in ("group", "split"):
        if chosen[option] is None and option in frame.columns and option not in (target, domain, group, split):
            chosen[option] = option
            notes.append(f"Column '{option}' was taken as the rows' {option}s, not as a feature.")
    columns = {option: name for option, name in chosen.items() if name is not None}
    for option, name in columns.items():
        if name not in frame.columns:
            raise NoColumnError(option, name, frame.attrs.get("arrays", frame.columns), path)
    named = list(columns.values())
    for name, words in frame.attrs.get("words", {}).items():
        if name in named:
            quoted = join_names([f"'{word}'" for word in words])
            notes.append(f"{quoted} in column '{name}' was taken as a name; only an empty field is a missing one.")
    asked = " or ".join(f"'{name}'" for name in named)
    known = frame[named].notna().all(axis=1)
    if not known.all():
        notes.append(f"{pluralize(int((~known).sum()), 'row')} without {asked} left out.")
        frame = frame[known]
    if not len(frame):
        raise ValueError(f"{path.name} should have rows with {asked.replace(' or ', ' and ')}, but has none.")
    features = frame.drop(columns=[*named, *(["file"] if "file" in frame.columns else [])])
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} should have columns besides {asked.replace(' or ', ' and ')}, but has none.")
    names = frame.attrs.get("names", {})
    values = {option: with_names(frame[name].to_numpy(), names.get(name)) for option, name in columns.items()}
    return Table(
        features.reset_index(drop=True),
        values["target"],
        names_of(values["domain"]),
        tuple(notes),
        groups=names_of(values["group"]) if "group" in values else None,
        splits=_splits(values["split"], columns["split"]) if "split" in values else None,
        names={option: tuple(names[name]) for option, name in columns.items() if name in names},
    )


def _check_different(columns: dict[str, str]) -> None:
    options = list(columns)
    for place, option in enumerate(options):
        for other in options[:place]:
            if columns[option] == columns[other]:
                raise ValueError(f"'{other}' and '{option}' should be two columns, but are both '{columns[option]}'.")


def _splits(column: NDArray[Any], name: str) -> NDArray[np.str_]:
    """Splits by their proper names."""
    proper = {word: split for split, words in _SPLITS.items() for word in words}
    labels, codes = np.unique(names_of(column), return_inverse=True)
    unknown = [label for label in labels if label.lower() not in proper]
    if unknown:
        raise ValueError(
            f"'split' should be a column of train, val and test, of 0, 1 and 2, or of in and out, but '{name}' holds "
            f"'{unknown[0]}'."
        )
    return np.array([proper[label.lower()] for label in labels], dtype=np.str_)[codes]
