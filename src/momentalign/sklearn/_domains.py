"""The column that says where each row came from, as estimators take it."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_domains(domains: object, rows: int, name: str = "domains") -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Labels and codes of a column of domains.

    Args:
        domains: Strings, integers or anything else that sorts, shape (rows,).
        rows: Number of rows of `X`.
        name: What the column is called in messages.

    Returns:
        The labels that occur, sorted, and the place of each row's label among them.

    Raises:
        ValueError: Another length, missing values, or labels that do not sort.
    """
    column = np.asarray(domains)
    if column.shape != (rows,):
        raise ValueError(f"'{name}' should have one entry per row of 'X' ({rows}), but has shape {column.shape}.")
    # Only a missing value differs from itself; None is one too.
    missing = column != column if column.dtype != object else np.array([v is None or v != v for v in column])
    if missing.any():
        raise ValueError(
            f"'{name}' should hold a label for every row, but {int(missing.sum())} are missing, first in row "
            f"{int(missing.argmax())}. Drop those rows or give them a name."
        )
    try:
        labels, codes = np.unique(column, return_inverse=True)
    except TypeError:
        raise ValueError(f"'{name}' should hold labels of one kind, but mixes kinds. Use strings throughout.") from None
    return labels, codes.astype(np.int64)


def warn_of_one_domain(
    labels: NDArray[Any], estimator: str, outcome: str = "is the plain L2-regularised model"
) -> None:
    """Say that there is nothing to align."""
    if len(labels) == 1:
        warnings.warn(
            f"All rows are of domain {labels[0]!r}: with one domain there is nothing to compare, and {estimator} "
            f"{outcome}. Pass rows of several domains.",
            UserWarning,
            stacklevel=4,
        )
