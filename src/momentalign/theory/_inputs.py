"""Arrays as people have them, to float64 tensors: features, labels of any kind, names of domains."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

Floats = NDArray[np.float64]


def as_features(name: str, value: Any, columns: int | None = None) -> Tensor:
    """Bring `value` to a finite float64 matrix with rows, of `columns` columns where that is given."""
    if sparse.issparse(value):
        raise TypeError(f"'{name}' should be a dense array, but is a sparse matrix. Use {name}.toarray().")
    matrix = _as_numbers(name, value)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        hint = " One feature is a matrix of one column: use reshape(-1, 1)." if matrix.ndim == 1 else ""
        raise ValueError(f"'{name}' should have shape (n, d), but has shape {matrix.shape}.{hint}")
    if len(matrix) == 0:
        raise ValueError(f"'{name}' should have at least one row, but has none.")
    if columns is not None and matrix.shape[1] != columns:
        raise ValueError(f"'{name}' should have {columns} columns like 'X', but has {matrix.shape[1]}.")
    return torch.from_numpy(matrix)


def as_outcomes(name: str, value: Any, rows: int, of: str, columns: int | None = None) -> Tensor:
    """Bring real targets to a finite float64 matrix (n, C), one row for each of the `rows` rows of the array `of`."""
    matrix = _as_numbers(name, value)
    _check_rows(name, matrix, rows, of)
    if matrix.ndim > 2:
        raise ValueError(f"'{name}' should have shape ({rows},) or ({rows}, C), but has shape {matrix.shape}.")
    matrix = matrix.reshape(rows, -1)
    if columns is not None and matrix.shape[1] != columns:
        raise ValueError(f"'{name}' should have {columns} columns like 'y', but has {matrix.shape[1]}.")
    return torch.from_numpy(matrix)


def as_labels(name: str, value: Any, rows: int, of: str) -> NDArray[Any]:
    """Bring `value` to a vector of labels without gaps, one for each of the `rows` rows of the array `of`."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    # As objects, because a list of numbers and words would become words otherwise.
    labels = np.array(value, dtype=object) if isinstance(value, list | tuple) else np.asarray(value)
    _check_rows(name, labels, rows, of)
    if labels.ndim != 1:
        raise ValueError(f"'{name}' should have shape ({rows},), but has shape {labels.shape}.")
    if labels.dtype.kind in "fcO":
        missing = [row for row, label in enumerate(labels.tolist()) if _is_missing(label)]
        if missing:
            raise ValueError(
                f"'{name}' should have a value in every row, but misses {len(missing)}, first in row {missing[0]}. "
                "Leave these rows out or give them a name of their own."
            )
    return labels


def encode(labels: NDArray[Any]) -> tuple[list[Any], Tensor]:
    """Distinct labels in ascending order, by type and text where they do not compare, and their index in each row."""
    values = labels.tolist()
    try:
        distinct = sorted(set(values))
    except TypeError:
        distinct = sorted(set(values), key=lambda label: (type(label).__name__, str(label)))
    places = {label: place for place, label in enumerate(distinct)}
    return distinct, torch.tensor([places[label] for label in values])


def encode_like(name: str, labels: NDArray[Any], distinct: Sequence[Any]) -> Tensor:
    """Index of each label among those already known."""
    places = {label: place for place, label in enumerate(distinct)}
    unknown = sorted({str(label) for label in labels.tolist() if label not in places})
    if unknown:
        raise ValueError(
            f"'{name}' should hold the classes of 'y' ({listed(distinct)}), but also holds {listed(unknown)}. "
            "Leave these rows out: no head was fitted for them."
        )
    return torch.tensor([places[label] for label in labels.tolist()])


def listed(names: Sequence[Any], most: int = 8) -> str:
    """Names for a message, the first few of many."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"


def check_positive(name: str, value: object, why: str) -> float:
    """Return `value` as a number if it is finite and above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"'{name}' should be a number, but is {value!r}.")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"'{name}' should be finite and above 0, but is {value!r}. {why}")
    return float(value)


def _as_numbers(name: str, value: Any) -> Floats:
    if isinstance(value, Tensor):
        value = value.detach().cpu().double().numpy()
    try:
        array = np.asarray(value)
        numbers = array if array.dtype.kind == "c" else array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"'{name}' should hold numbers, but holds text or other objects. Encode these columns."
        ) from None
    if numbers.dtype.kind == "c":
        raise TypeError(f"'{name}' should hold real numbers, but holds {numbers.dtype}.")
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argwhere(bad)[0][0]) if numbers.ndim else 0
        raise ValueError(
            f"'{name}' should be finite, but has {int(bad.sum())} NaN or infinite, first in row {row}. "
            "Impute or leave out what is missing."
        )
    return numbers


def _check_rows(name: str, array: NDArray[Any], rows: int, of: str) -> None:
    if array.ndim == 0 or len(array) != rows:
        raise ValueError(f"'{name}' should have one entry per row of '{of}' ({rows}), but has shape {array.shape}.")


def _is_missing(label: Any) -> bool:
    return (
        label is None or type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, float) and label != label)
    )
