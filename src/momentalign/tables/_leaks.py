"""Columns that give the label away: copies of it under another name, codes or units."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._format import join_first
from momentalign._types import Array, Integers
from momentalign.tables._columns import Column, is_numeric, value_texts

_SAMPLE = 10_000
"""Rows that are looked at first: sorting all rows of thousands of columns would take minutes."""
_FEWEST_ROWS = 10
_CORRELATION = 0.9999
_CHANCE = 1e-4
"""Probability, for all columns together, that unrelated values agree with the labels by chance."""


def describe_leaks(
    frame: Any, columns: Sequence[Column], targets: NDArray[Any], target_name: str, *, numbers: bool
) -> list[str]:
    """Sentences on columns that determine the label; empty if there are none.

    Args:
        frame: Data frame of the training rows.
        columns: Those that are used.
        targets: Class index of each row, or its number.
        target_name: Column of the labels.
        numbers: Whether the target is a number. Then a column is named if its correlation is at least 0.9999, else if
            rows with equal values always have the same label, and enough values repeat for this to be no accident.
    """
    found = []
    for column in columns:
        values = frame[column.name]
        known = values.notna().to_numpy()
        if numbers:
            leaks = is_numeric(values) and _is_copy(values.to_numpy(np.float64, na_value=np.nan)[known], targets[known])
        else:
            leaks = _determines(values[known], targets[known], _CHANCE / len(columns))
        if leaks:
            found.append(f"'{column.name}'")
    if not found:
        return []
    how = "a correlation of 0.9999 or more" if numbers else "rows with the same value always have the same label"
    several = len(found) > 1
    return [
        f"Warning: {join_first(found)} give{'' if several else 's'} '{target_name}' away: {how}. Remove "
        f"{'such columns' if several else 'the column'} from the file, unless new rows have "
        f"{'them' if several else 'it'} before their label is known."
    ]


def _is_copy(numbers: Array, targets: Array) -> bool:
    """Whether a column is a linear function of the target, but for rounding."""
    if len(numbers) < _FEWEST_ROWS:
        return False
    x, y = _standardize(numbers), _standardize(targets)
    return bool(x.any() and y.any() and abs(x @ y) >= _CORRELATION * np.sqrt((x @ x) * (y @ y)))


def _standardize(numbers: Array) -> Array:
    """Deviations from the mean, scaled so that squares neither overflow nor underflow; zeros for a constant."""
    scaled = numbers / (np.abs(numbers).max() or 1.0)
    centred: Array = scaled - scaled.mean()
    return centred / (np.abs(centred).max() or 1.0) if np.ptp(scaled) > 0 else np.zeros_like(scaled)


def _determines(values: Any, targets: Integers, chance: float) -> bool:
    """Whether rows with equal values always have the same label, which has less than this `chance` by accident."""
    step = max(1, len(targets) // _SAMPLE)
    if not _agree(_codes(values[::step]), targets[::step], chance):
        return False
    return step == 1 or _agree(_codes(values), targets, chance)


def _codes(values: Any) -> Integers:
    """Index of each row's value."""
    plain = values.to_numpy() if is_numeric(values) else np.array(value_texts(values), dtype=np.str_)
    codes: Integers = np.unique(plain, return_inverse=True)[1]
    return codes


def _agree(codes: Integers, targets: Integers, chance: float) -> bool:
    if len(codes) < _FEWEST_ROWS:
        return False
    labels = np.zeros(codes.max() + 1, dtype=np.int64)
    labels[codes] = targets
    if (labels[codes] != targets).any():
        return False
    counts, sizes = np.bincount(codes), np.bincount(targets)
    # A value of one row agrees with its label always: such values tell nothing about a class, as those of identifiers.
    repeated = np.bincount(targets, counts[codes] > 1)
    if (sizes > 0).sum() < 2 or (repeated < sizes / 2)[sizes > 1].any():
        return False
    # Probability that all further rows of each value have the label of its first, were labels drawn independently.
    return bool(((counts - 1) * np.log(sizes[labels] / len(targets))).sum() < np.log(chance))
