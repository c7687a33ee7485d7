"""Labels of a table: their names, and whether they are classes or numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

TASKS = ("auto", "classification", "regression")
FEW_VALUES = 20
"""Distinct values that a column of classes, categories or domains may have, however few the rows."""


def label_name(value: object) -> str:
    """Name of one label; a whole number that missing values turned into 1.0 is "1", as it was written."""
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)


def label_names(column: NDArray[Any]) -> NDArray[np.str_]:
    """Names of all labels of a column, shape (n,)."""
    return np.array([label_name(value) for value in column], dtype=np.str_)


def name_indices(column: NDArray[Any], names: Sequence[str] | None) -> NDArray[Any]:
    """Replace indices by names; other columns are returned unchanged."""
    integers = np.issubdtype(column.dtype, np.integer)
    if names is None or not integers or not len(column) or column.min() < 0 or column.max() >= len(names):
        return column
    named: NDArray[np.str_] = np.asarray(names, dtype=np.str_)[column]
    return named


def is_quantity(column: NDArray[Any]) -> bool:
    """Whether a column holds more than 20 distinct numbers, too many to be classes."""
    return column.dtype.kind in "fiu" and len(np.unique(column)) > FEW_VALUES


def is_mostly_distinct(values: int, rows: int) -> bool:
    """Whether most rows differ: such a column holds texts or identifiers."""
    return values > max(FEW_VALUES, rows // 2)


def encode_targets(
    column: NDArray[Any], task: str = "auto", *, names: Sequence[str] = (), column_name: str = "y"
) -> tuple[tuple[str, ...] | None, NDArray[Any]]:
    """Class names and the class index of each row; or None and a float64 for each row of a regression.

    Classes are in the order of `names` if those cover all labels, else numbers ascending and text alphabetical. Task
    `"auto"` is a regression for more than 20 distinct numbers. Text and infinite values in the target of a regression
    raise a ValueError, and so does text that is different in most rows.
    """
    if task == "regression" or (task == "auto" and is_quantity(column)):
        return None, _numbers(column, column_name)
    check_classes(column, column_name)
    return encode_classes(column, names)


def check_classes(column: NDArray[Any], name: str) -> None:
    """Raise ValueError for a column of text whose values are different in most rows, such as names or sentences."""
    if column.dtype.kind in "biuf":
        return
    values = len(np.unique(column.astype(str)))
    if is_mostly_distinct(values, len(column)):
        raise ValueError(
            f"Column '{name}' should hold classes, but has {values} different texts in {len(column)} rows. Name "
            "another column with --target."
        )


def check_domains(domains: NDArray[np.str_], name: str) -> None:
    """Raise ValueError for domains that are different in most rows, such as the numbers of patients."""
    values = len(np.unique(domains))
    if is_mostly_distinct(values, len(domains)):
        raise ValueError(
            f"Column '{name}' should say which domain a row comes from, but has {values} different values in "
            f"{len(domains)} rows. Name another column with --domain."
        )


def encode_classes(column: NDArray[Any], names: Sequence[str] = ()) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names of a column's labels, sorted or in the order of `names` if those cover all, and each row's index."""
    labels, codes = np.unique(column if column.dtype.kind in "fiu" else column.astype(str), return_inverse=True)
    present = [label_name(label) for label in labels]
    classes = list(names) if set(present) <= set(names) else present
    return tuple(classes), np.array([classes.index(name) for name in present], dtype=np.int64)[codes]


def _numbers(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    try:
        numbers = column.astype(np.float64)
    except (ValueError, TypeError):
        text = next(value for value in column if not isinstance(value, int | float))
        raise ValueError(f"The target of a regression should hold numbers, but '{name}' holds '{text}'.") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"The target of a regression should be finite, but '{name}' has infinite values.")
    return numbers
