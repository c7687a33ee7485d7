"""From the columns of a table to numbers and back to the same numbers on new rows, as JSON can hold it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._format import pluralize
from momentalign.data._labels import name_of

Array = NDArray[np.float64]

MISSING = "missing"
_FEW = 20
"""Values up to which a column of text is taken as categories however few rows there are."""


@dataclass(frozen=True)
class Column:
    """A column of the table: a number, or categories.

    Args:
        name: Of the column.
        fill: What a missing number is taken for.
        categories: The categories, one column of 0 and 1 each; None for a number.
    """

    name: str
    fill: float = 0.0
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Columns that it becomes."""
        return 1 if self.categories is None else len(self.categories)


@dataclass(frozen=True)
class Encoded:
    """Numbers of some rows, and what had to be done to them.

    Args:
        matrix: Shape (n, D).
        missing: Missing values by column, where there are any.
        unseen: Values of no known category by column, where there are any.
    """

    matrix: Array
    missing: dict[str, int]
    unseen: dict[str, int]


def learn_columns(frame: Any) -> tuple[list[Column], list[str]]:
    """Decide what the columns of the training rows are.

    Args:
        frame: Data frame of the training rows.

    Returns:
        The columns that are used, and what was done to which, a sentence each.

    Raises:
        ValueError: Infinite numbers, or no column that varies.
    """
    columns, left, odds = [], dict[str, list[str]](), list[str]()
    for name in frame.columns:
        values = frame[name]
        if values.isna().all():
            left.setdefault("Columns without any value in the training rows were left out", []).append(name)
            continue
        if _is_number(values):
            numbers = _numbers(values, name)
            known = numbers[~np.isnan(numbers)]
            fill = float(np.median(known))
            constant = known.min() == known.max()  # filled with the median, which is that value
            column = Column(name, fill)
        else:
            texts = _texts(values)
            labels = sorted(set(texts))
            if odd := _odd_ones_out(values):
                rows = f"{pluralize(len(odd), 'row')} ({odd[0]!r}, for instance)"
                said = f"Column '{name}' holds numbers but for {rows}, and was taken as text."
                odds.append(f"{said} Leave those fields empty to have numbers.")
            constant = len(labels) < 2
            column = Column(name, categories=tuple(labels))
            if len(labels) > max(_FEW, len(texts) // 2):
                left.setdefault("Columns of text with a value of its own in most rows were left out", []).append(name)
                continue
        if constant:
            left.setdefault("Columns with one value in all training rows were left out", []).append(name)
            continue
        columns.append(column)
    notes = [*odds, *(f"{reason}: {_some(names)}." for reason, names in left.items())]
    if not columns:
        raise ValueError("No column of the training rows can be used: " + " ".join(notes))
    categories = [column.name for column in columns if column.categories is not None]
    if categories:
        notes.append(f"Taken as categories, a column each: {_some(categories)}.")
    return columns, notes


def encode(frame: Any, columns: Sequence[Column]) -> Encoded:
    """Turn rows into numbers: missing numbers become the training rows' median, unknown categories all zeros.

    Args:
        frame: Data frame with these columns, others beside them.
        columns: Of :func:`learn_columns`.

    Returns:
        The numbers.

    Raises:
        ValueError: A column that is not there, or text in a column of numbers.
    """
    absent = [column.name for column in columns if column.name not in frame.columns]
    if absent:
        raise ValueError(
            f"The rows should have the columns of the training rows, but lack {_some(absent)}. Columns found: "
            f"{_some(frame.columns)}. Rename or add them; an empty column counts as missing values."
        )
    matrix = np.zeros((len(frame), sum(column.width for column in columns)))
    missing, unseen, place = dict[str, int](), dict[str, int](), 0
    if columns and all(column.categories is None and frame[column.name].dtype.kind in "fiu" for column in columns):
        return _encode_numbers(frame, columns)
    for column in columns:
        values = frame[column.name]
        gaps = int(values.isna().sum())
        if gaps:
            missing[column.name] = gaps
        if column.categories is None:
            numbers = _numbers(values, column.name)
            matrix[:, place] = np.where(np.isnan(numbers), column.fill, numbers)
        else:
            places = {label: number for number, label in enumerate(column.categories)}
            codes = np.array([places.get(text, -1) for text in _texts(values)], dtype=np.int64)
            known = codes >= 0
            matrix[np.flatnonzero(known), place + codes[known]] = 1.0
            if not known.all():
                unseen[column.name] = int((~known).sum())
        place += column.width
    return Encoded(matrix, missing, unseen)


def _encode_numbers(frame: Any, columns: Sequence[Column]) -> Encoded:
    """The same where all columns are plain numbers, thousands of features perhaps, all at once."""
    matrix: Array = frame[[column.name for column in columns]].to_numpy(dtype=np.float64, copy=True)
    infinite = np.isinf(matrix).sum(0)
    if infinite.any():
        place = int(infinite.argmax())
        raise _not_finite(columns[place].name, int(infinite[place]))
    gaps = np.isnan(matrix)
    rows, places = np.nonzero(gaps)
    matrix[rows, places] = np.array([column.fill for column in columns])[places]
    missing = {column.name: int(count) for column, count in zip(columns, gaps.sum(0), strict=True) if count}
    return Encoded(matrix, missing, {})


def said_of(encoded: Encoded, rows: str, *, missing: bool = True) -> list[str]:
    """Say what was done to the values of some rows.

    Args:
        encoded: The values.
        rows: What the rows are called.
        missing: Whether to speak of missing values.

    Returns:
        A sentence each.
    """
    notes = []
    if encoded.missing and missing:
        listed = _some([f"{name} ({count})" for name, count in encoded.missing.items()])
        notes.append(
            f"Missing values of {rows} were filled, numbers with the training rows' median, the rest as a category of "
            f"their own: {listed}."
        )
    if encoded.unseen:
        listed = _some([f"{name} ({count})" for name, count in encoded.unseen.items()])
        notes.append(f"Categories of {rows} that no training row has were ignored: {listed}.")
    return notes


def _is_number(values: Any) -> bool:
    return values.dtype.kind in "fiub"


def _numbers(values: Any, name: str) -> Array:
    """Numbers with NaN for what is missing."""
    if not _is_number(values):
        try:
            values = values.where(values.notna(), np.nan).astype(float)
        except (ValueError, TypeError):
            wrong = next(value for value in values if not _reads_as_number(value))
            raise ValueError(f"Column '{name}' should hold numbers, but holds '{wrong}'.") from None
    numbers: Array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(numbers).any():
        raise _not_finite(name, int(np.isinf(numbers).sum()))
    return numbers


def _odd_ones_out(values: Any) -> list[str]:
    """What keeps a column of text from being one of numbers, where nine of ten of its values are numbers."""
    known = values[values.notna()]
    odd = [str(value) for value in known if not _reads_as_number(value)]
    return odd if 10 * len(odd) <= len(known) else []


def _not_finite(name: str, count: int) -> ValueError:
    return ValueError(f"Column '{name}' should hold finite numbers, but {count} are infinite.")


def _reads_as_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return value is None
    return True


def _texts(values: Any) -> list[str]:
    """Text of each value; numbers that are whole are written as whole numbers, so that 1 and 1.0 are one category."""
    known = values.notna()
    return [name_of(value) if there else MISSING for value, there in zip(values, known, strict=True)]


def _some(names: Iterable[str]) -> str:
    listed = [str(name) for name in names]
    return ", ".join(listed[:12]) + (f" and {len(listed) - 12} more" if len(listed) > 12 else "")
