"""User arrays to float64 tensors: features, labels of any kind, names of domains."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from momentalign._format import join_first
from momentalign._types import Array
from momentalign._validation import check_column, check_labels, check_number


def as_features(name: str, value: Any, columns: int | None = None) -> Tensor:
    """Convert to a finite float64 matrix with at least one row, and `columns` columns if given."""
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
    """Convert real targets to a finite float64 matrix (n, C), one row for each of the `rows` rows of the array `of`."""
    matrix = _as_numbers(name, value)
    check_column(name, matrix.shape[:1], rows, of)
    if matrix.ndim > 2:
        raise ValueError(f"'{name}' should have shape ({rows},) or ({rows}, C), but has shape {matrix.shape}.")
    matrix = matrix.reshape(rows, -1)
    if columns is not None and matrix.shape[1] != columns:
        raise ValueError(f"'{name}' should have {columns} columns like 'y', but has {matrix.shape[1]}.")
    return torch.from_numpy(matrix)


def as_labels(name: str, value: Any, rows: int, of: str) -> NDArray[Any]:
    """Convert to a vector of labels without missing values, one for each of the `rows` rows of the array `of`."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    # As objects: NumPy would turn a list of numbers and strings into strings.
    labels = np.array(value, dtype=object) if isinstance(value, list | tuple) else np.asarray(value)
    check_labels(name, labels, rows, of)
    return labels


def index_labels(labels: NDArray[Any]) -> tuple[list[Any], Tensor]:
    """Distinct labels, sorted (by type and text where they do not compare), and each row's index among them."""
    values = labels.tolist()
    try:
        distinct = sorted(set(values))
    except TypeError:
        distinct = sorted(set(values), key=lambda label: (type(label).__name__, str(label)))
    indices = {label: index for index, label in enumerate(distinct)}
    return distinct, torch.tensor([indices[label] for label in values])


def index_named_domains(domains: Any, rows: int) -> tuple[list[Any], Tensor]:
    """Names of at least two domains, sorted, and the domain index of each of the `rows` rows of 'X'."""
    labels, index = index_labels(as_labels("domains", domains, rows, "X"))
    if len(labels) < 2:
        raise ValueError(f"'domains' should name at least two domains, but all {rows} rows are of {labels[0]!r}.")
    return labels, index


def index_known_labels(name: str, labels: NDArray[Any], distinct: Sequence[Any]) -> Tensor:
    """Index of each label among the classes `distinct` of 'y'."""
    indices = {label: index for index, label in enumerate(distinct)}
    unknown = sorted({str(label) for label in labels.tolist() if label not in indices})
    if unknown:
        known = join_first([str(label) for label in distinct])
        raise ValueError(
            f"'{name}' should hold the classes of 'y' ({known}), but also holds {join_first(unknown)}. "
            "Drop these rows: the head has no output for them."
        )
    return torch.tensor([indices[label] for label in labels.tolist()])


def check_positive(name: str, value: object, why: str) -> float:
    """Return `value` as a float if it is finite and above zero."""
    number = check_number(name, value)
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"'{name}' should be finite and above 0, but is {value!r}. {why}")
    return number


def check_radius(radius: object) -> float:
    """Return the radius of a ball of heads as a float if it is finite and above zero."""
    return check_positive("radius", radius, "It is √δ, the largest distance of a head from the centre.")


def check_level(level: object) -> None:
    """Check that `level` is a number between 0 and 1."""
    if not 0 < check_number("level", level) < 1:
        raise ValueError(f"'level' should lie between 0 and 1, but is {level!r}. Use 0.9 for intervals of 90%.")


def _as_numbers(name: str, value: Any) -> Array:
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
            "Impute missing values or drop these rows."
        )
    return numbers
