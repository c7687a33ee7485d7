"""Columns of labels: what their values are called, and whether they are labels at all."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MANY = 20
"""Different numbers from which on a column of them counts as a quantity, not as classes."""


def name_of(value: object) -> str:
    """What a label is called: a whole number that missing values have made 1.0 is called 1, as it was written."""
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)


def names_of(column: NDArray[Any]) -> NDArray[np.str_]:
    """What every label of a column is called.

    Args:
        column: Shape (n,).

    Returns:
        Shape (n,).
    """
    return np.array([name_of(value) for value in column], dtype=np.str_)


def is_quantity(column: NDArray[Any]) -> bool:
    """Whether a column holds more different numbers than one would call classes: more than 20."""
    return column.dtype.kind in "fiu" and len(np.unique(column)) > _MANY


def classes_of(column: NDArray[Any]) -> tuple[list[str], NDArray[np.intp]]:
    """The classes that a column names.

    Args:
        column: Labels, shape (n,).

    Returns:
        Names of the classes, numbers in the order of numbers and the rest in that of its letters; and the place of each
        row's class among them.
    """
    labels, places = np.unique(column if column.dtype.kind in "fiu" else column.astype(str), return_inverse=True)
    return [name_of(label) for label in labels], places
