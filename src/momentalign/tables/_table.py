"""Rows with a label and a domain, and optional groups and splits, from a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._format import join_first, join_names, plain_name, pluralize
from momentalign._table_spec import split_spec, table_spec
from momentalign.tables._columns import check_decimal_points
from momentalign.tables._files import MissingColumnError, read_frame
from momentalign.tables._labels import label_names, name_indices

_SPLITS = {
    "train": ("0", "train", "training"),
    "val": ("1", "val", "valid", "validation", "dev"),
    "test": ("2", "test"),
    "in": ("in",),
    "out": ("out",),
}
"""Accepted spellings of each split; 0, 1 and 2 are those of the group-labelled benchmarks."""
_ROLES = ("target", "domain", "group", "split")
_LISTED = 30
"""Most domains that are listed."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table; rows without a label or domain are dropped.

    Args:
        features: Data frame of the feature columns, (n, columns).
        target: Labels, shape (n,).
        domains: Domain names, shape (n,).
        notes: What was done to the rows, one sentence each.
        groups: Group names, shape (n,), if any.
        splits: `"train"`, `"val"` or `"test"`, or `"in"` and `"out"`, shape (n,), if any.
        names: Names of classes, domains and groups in the file's own order, by `"target"`, `"domain"` and `"group"`,
            if the file has them.
        path: The file.
        columns: Names of the columns by `"target"`, `"domain"`, `"group"` and `"split"`, the latter two if any.
    """

    features: Any
    target: NDArray[Any]
    domains: NDArray[np.str_]
    notes: tuple[str, ...]
    groups: NDArray[np.str_] | None = None
    splits: NDArray[np.str_] | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    path: Path = Path("table")
    columns: Mapping[str, str] = field(default_factory=lambda: {"target": "y", "domain": "domain"})

    @property
    def training_rows(self) -> NDArray[np.bool_]:
        """Rows of the training split, all rows where there are no splits; shape (n,)."""
        if self.splits is None:
            return np.ones(len(self.domains), dtype=bool)
        return np.isin(self.splits, ("train", "in"))

    def describe(self, kind: str) -> list[str]:
        """Sentences for the user: size, kind of target, domains, notes."""
        names, counts = np.unique(self.domains, return_counts=True)
        sizes = join_first([f"{name} ({count})" for name, count in zip(names, counts, strict=True)], _LISTED)
        rows, columns = self.features.shape
        return [
            f"{self.path.name}: {rows} rows, {columns} columns, '{self.columns['target']}' taken as {kind}.",
            f"Domains: {sizes}.",
            *self.notes,
        ]


def read_table(
    path: str | Path,
    *,
    target: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    split: str | None = None,
    sep: str | None = None,
    encoding: str | None = None,
) -> Table:
    """Read a table with a column for the label and one for the domain; all other columns are features.

    Columns that `embed` writes are recognised: `group` and `split` are used as such, and `file` is not a feature. In an
    npz file these are arrays beside a matrix `X`; where one of them holds indices and another array names (`classes`
    for `y`, `domains` for `domain`, `group_names` for `group`), the names are used.

    Args:
        path: A .csv, .tsv (both also .gz), .parquet or .npz file; options may follow, as in
            `sites.csv?target=outcome&domain=hospital`, see :func:`momentalign.data.table_spec`.
        target: Column of the labels; None for `y`.
        domain: Column of the domains; None for `domain`.
        group: Column of the groups; None uses `group` if the table has it.
        split: Column of train, val and test, of 0, 1, 2, or of in and out; None uses `split` if the table has it.
        sep: Separator of a CSV file, one character or `tab`; None for a tab in a .tsv file, else a comma.
        encoding: Of a CSV file; None for UTF-8.

    Raises:
        ValueError: Not such a file, no such column, or no rows left.
    """
    reading = {"target": target, "domain": domain, "group": group, "split": split, "sep": sep, "encoding": encoding}
    path, columns, dialect = _parse_options(path, reading)
    target = columns["target"]
    text_columns = [columns.get(option, option) for option in ("domain", "group")]
    frame = read_frame(path, [columns.get(option, option) for option in _ROLES], text_columns=text_columns, **dialect)
    notes = []
    for option in ("group", "split"):
        if option not in columns and option in frame.columns and option not in columns.values():
            columns[option] = option
            notes.append(f"Column '{option}' was taken as the rows' {option}s, not as a feature.")
    _check_present(columns, frame.columns, frame.attrs.get("arrays", frame.columns), path)
    used = list(columns.values())
    for name, words in frame.attrs.get("words", {}).items():
        if name in used:
            quoted = join_names([f"'{word}'" for word in words])
            notes.append(f"{quoted} in column '{name}' was taken as a name; only an empty field counts as missing.")
    quoted_names = [f"'{name}'" for name in used]
    known = frame[used].notna().all(axis=1)
    if not known.all():
        notes.append(f"{pluralize(int((~known).sum()), 'row')} without {' or '.join(quoted_names)} dropped.")
        frame = frame[known]
    if not len(frame):
        raise ValueError(f"{path.name} should have rows with {' and '.join(quoted_names)}, but has none.")
    features = frame.drop(columns=[*used, *(["file"] if "file" in frame.columns else [])])
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} should have columns besides {' and '.join(quoted_names)}, but has none.")
    if frame[target].dtype.kind == "O":
        check_decimal_points(frame[target], target)
    names = frame.attrs.get("names", {})
    values = {option: name_indices(frame[name].to_numpy(), names.get(name)) for option, name in columns.items()}
    labels = {option: label_names(values[option]) for option in ("domain", "group") if option in values}
    for option, column in (("target", values["target"]), *labels.items()):
        if column.dtype.kind not in "biuf":
            notes += _similar_names(columns[option], column)
    return Table(
        features.reset_index(drop=True),
        values["target"],
        labels["domain"],
        tuple(notes),
        groups=labels.get("group"),
        splits=_splits(values["split"], columns["split"]) if "split" in values else None,
        names={option: tuple(names[name]) for option, name in columns.items() if name in names},
        path=path,
        columns=columns,
    )


def _parse_options(
    path: str | Path, reading: Mapping[str, str | None]
) -> tuple[Path, dict[str, str], dict[str, str | None]]:
    """The file, its columns by role where they are named, and separator and encoding."""
    name_of_file, options = split_spec(table_spec(path, **reading))
    columns = {"target": "y", "domain": "domain"} | {role: options[role] for role in _ROLES if role in options}
    for (first, name), (second, other) in combinations(columns.items(), 2):
        if name == other:
            raise ValueError(f"'{first}' and '{second}' should be two columns, but are both '{name}'.")
    dialect = {option: options.get(option) for option in ("sep", "encoding")}
    return Path(name_of_file).expanduser(), columns, dialect


def _check_present(columns: Mapping[str, str], present: Iterable[str], listed: Iterable[str], path: Path) -> None:
    existing = set(present)
    if missing := {role: name for role, name in columns.items() if name not in existing}:
        raise MissingColumnError(missing, listed, path)


def _similar_names(column: str, values: NDArray[Any]) -> list[str]:
    """Notes on names of a column that differ by spaces or case only."""
    similar: dict[str, list[str]] = {}
    for name in np.unique(values.astype(str)).tolist():
        similar.setdefault(plain_name(name), []).append(f"'{name}'")
    return [
        f"{join_names(names)} in column '{column}' differ by spaces or case only, and count as different."
        for names in similar.values()
        if len(names) > 1
    ]


def _splits(column: NDArray[Any], name: str) -> NDArray[np.str_]:
    """Canonical split names."""
    canonical = {word: split for split, words in _SPLITS.items() for word in words}
    labels, codes = np.unique(label_names(column), return_inverse=True)
    unknown = [label for label in labels if label.lower() not in canonical]
    if unknown:
        raise ValueError(
            f"'split' should be a column of train, val and test, of 0, 1 and 2, or of in and out, but '{name}' holds "
            f"'{unknown[0]}'."
        )
    return np.array([canonical[label.lower()] for label in labels], dtype=np.str_)[codes]
