"""Columns of a table as numbers: learned on training rows, applied to any rows, stored as JSON."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from momentalign._format import join_ends, join_first, join_names, pluralize
from momentalign._types import Array
from momentalign.tables._labels import FEW_VALUES, is_mostly_distinct, label_name

_MISSING = "missing"
_COMMA_NUMBER = re.compile(r"[+-]?(\d+(,\d+)*(\.\d+)?|\d{1,3}(\.\d{3})+,\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
_LARGEST = 1e150
"""Larger numbers have squares that overflow."""
_MANY, _ROWS_PER_VALUE = 50, 10
"""A text column with more values than both allow is mentioned."""


@dataclass(frozen=True)
class Column:
    """A numeric or categorical column.

    Args:
        name: In the table.
        fill: Replaces missing numbers.
        categories: One 0/1 column each; None for a numeric column.
    """

    name: str
    fill: float = 0.0
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Number of columns after encoding."""
        return 1 if self.categories is None else len(self.categories)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Inverse of `dataclasses.asdict`, after a round trip through JSON."""
        categories = content["categories"]
        return cls(content["name"], content["fill"], None if categories is None else tuple(categories))


@dataclass(frozen=True)
class EncodedRows:
    """Rows as numbers (n, D), with the counts of missing values and of unknown categories by column."""

    matrix: Array
    missing: dict[str, int]
    unseen: dict[str, int]

    def describe(self, rows: str, *, missing: bool = True) -> list[str]:
        """Notes on filled values (unless `missing` is False) and ignored categories; `rows` names the rows."""
        notes = []
        if self.missing and missing:
            notes.append(
                f"Missing values of {rows} were filled, numbers with the training rows' median, the rest as a category "
                f"of their own: {_counts(self.missing)}."
            )
        if self.unseen:
            notes.append(f"Categories of {rows} that no training row has were ignored: {_counts(self.unseen)}.")
        return notes


@dataclass(frozen=True, eq=False)
class TableEncoder:
    """Columns to standardised numbers, optionally projected: ((x - mean) / scale) @ matrix.

    Args:
        columns: D numbers in all.
        mean: Shape (D,).
        scale: Shape (D,).
        matrix: Projection, shape (D, k); None for none.
    """

    columns: tuple[Column, ...]
    mean: Array
    scale: Array
    matrix: Array | None = None

    def __post_init__(self) -> None:
        width = sum(column.width for column in self.columns)
        check_shape("mean", self.mean, (width,))
        check_shape("scale", self.scale, (width,))

    @property
    def width(self) -> int:
        """Number of features after encoding, k."""
        return len(self.mean) if self.matrix is None else self.matrix.shape[1]

    def encode(self, frame: Any) -> EncodedRows:
        """Rows of a data frame as numbers, not yet standardised."""
        return encode_rows(frame, self.columns)

    def transform(self, numbers: Array) -> Array:
        """Standardise and project encoded rows: (n, D) to (n, k)."""
        standard = (numbers - self.mean) / self.scale
        return standard if self.matrix is None else standard @ self.matrix


def check_shape(name: str, array: Array, shape: tuple[int, ...]) -> None:
    """Raise ValueError for an array of another shape."""
    if array.shape != shape:
        raise ValueError(f"'{name}' should have shape {shape}, but has shape {array.shape}.")


def fit_encoder(frame: Any, components: int | None = None) -> tuple[TableEncoder, EncodedRows, list[str]]:
    """Learn medians, categories, means and deviations from training rows.

    Args:
        frame: Data frame of the training rows.
        components: Principal components to keep of wider features; None keeps all columns.

    Returns:
        The encoder, the encoded training rows, and notes on the decisions, one sentence each.
    """
    columns, notes = learn_columns(frame)
    encoded = encode_rows(frame, columns)
    numbers = encoded.matrix
    mean, scale = numbers.mean(0), numbers.std(0)
    scale[scale == 0] = 1.0
    if components is None or numbers.shape[1] <= components:
        return TableEncoder(tuple(columns), mean, scale), encoded, notes
    from sklearn.decomposition import PCA  # slow to import

    pca = PCA(
        min(components, *numbers.shape), svd_solver="covariance_eigh" if len(numbers) > 2 * components else "full"
    )
    pca.fit((numbers - mean) / scale)
    notes.append(
        f"{numbers.shape[1]} columns were reduced to {pca.n_components_} principal components, which hold "
        f"{100 * pca.explained_variance_ratio_.sum():.0f}% of the variance."
    )
    return TableEncoder(tuple(columns), mean, scale, pca.components_.T), encoded, notes


def learn_columns(frame: Any) -> tuple[list[Column], list[str]]:
    """Columns to use, numeric or categorical, and notes on the decisions, one sentence each."""
    columns, dropped, mixed, identifiers = [], defaultdict[str, list[str]](list), list[str](), list[str]()
    for name in frame.columns:
        values = frame[name]
        if values.isna().all():
            dropped["Columns without any value in the training rows were dropped"].append(name)
            continue
        if is_numeric(values):
            numbers = _numbers(values, name)
            known = numbers[~np.isnan(numbers)]
            constant = known.min() == known.max()  # filled with the median, which is that value
            column = Column(name, float(np.median(known)))
            if values.dtype.kind in "iu" and len(known) > FEW_VALUES and len(np.unique(known)) == len(known):
                identifiers.append(name)
        else:
            check_decimal_points(values, name)
            texts = value_texts(values)
            labels = sorted(set(texts))
            if other := _stray_texts(values):
                rows = f"{pluralize(len(other), 'row')} (for instance {other[0]!r})"
                mixed.append(
                    f"Column '{name}' holds numbers except in {rows}, and was taken as text. Leave those fields empty "
                    "to have numbers."
                )
            constant = len(labels) < 2
            column = Column(name, categories=tuple(labels))
            if is_mostly_distinct(len(labels), len(texts)):
                dropped["Text columns with a different value in most rows were dropped"].append(name)
                continue
        if constant:
            dropped["Columns with one value in all training rows were dropped"].append(name)
            continue
        columns.append(column)
    notes = [*mixed, *(f"{reason}: {join_first(names, 12)}." for reason, names in dropped.items())]
    if not columns:
        raise ValueError("No column of the training rows can be used: " + (" ".join(notes) or "there are none."))
    if identifiers:
        notes.append(
            "Whole numbers that are different in each row were taken as quantities; remove identifiers and row "
            f"numbers: {join_first(identifiers, 12)}."
        )
    categorical = [column.name for column in columns if column.categories is not None]
    if categorical:
        notes.append(f"Categorical columns, one 0/1 column a category: {join_first(categorical, 12)}.")
    wide = {column.name: column.width for column in columns if column.width > max(_MANY, len(frame) // _ROWS_PER_VALUE)}
    if wide:
        notes.append(
            f"Many values with few rows each, which make a model slower and worse: {_counts(wide)}. Remove such a "
            "column, or turn it into a number (a date into its year) or into fewer values."
        )
    return columns, notes


def encode_rows(frame: Any, columns: Sequence[Column]) -> EncodedRows:
    """Turn rows into numbers: missing numbers become the training rows' median, unknown categories all zeros.

    Columns are matched by name and others ignored; an absent column or text in a numeric one raises a ValueError.
    """
    absent = [column.name for column in columns if column.name not in frame.columns]
    if absent:
        raise ValueError(
            f"The rows should have the columns of the training rows, but lack {join_first(absent, 12)}. Columns found: "
            f"{join_ends(frame.columns.tolist())}. Rename or add them; an empty column counts as missing values."
        )
    if columns and all(column.categories is None and frame[column.name].dtype.kind in "fiu" for column in columns):
        return _encode_numbers(frame, columns)
    matrix = np.zeros((len(frame), sum(column.width for column in columns)))
    missing, unseen, start = dict[str, int](), dict[str, int](), 0
    for column in columns:
        values = frame[column.name]
        if gaps := int(values.isna().sum()):
            missing[column.name] = gaps
        if column.categories is None:
            numbers = _numbers(values, column.name)
            matrix[:, start] = np.where(np.isnan(numbers), column.fill, numbers)
        else:
            index = {label: number for number, label in enumerate(column.categories)}
            codes = np.array([index.get(text, -1) for text in value_texts(values)], dtype=np.int64)
            known = codes >= 0
            matrix[np.flatnonzero(known), start + codes[known]] = 1.0
            if not known.all():
                unseen[column.name] = int((~known).sum())
        start += column.width
    return EncodedRows(matrix, missing, unseen)


def _encode_numbers(frame: Any, columns: Sequence[Column]) -> EncodedRows:
    """Fast path for numeric columns only: thousands of features at once."""
    matrix: Array = frame[[column.name for column in columns]].to_numpy(dtype=np.float64, copy=True)
    too_large = (np.abs(matrix) > _LARGEST).sum(0)
    if too_large.any():
        first = int(too_large.argmax())
        raise _too_large(columns[first].name, int(too_large[first]))
    gaps = np.isnan(matrix)
    rows, at = np.nonzero(gaps)
    matrix[rows, at] = np.array([column.fill for column in columns])[at]
    missing = {column.name: int(count) for column, count in zip(columns, gaps.sum(0), strict=True) if count}
    return EncodedRows(matrix, missing, {})


def is_numeric(values: Any) -> bool:
    """Whether a column of a data frame holds numbers or truth values."""
    return values.dtype.kind in "fiub"


def _numbers(values: Any, name: str) -> Array:
    """Values as float64, NaN where missing."""
    if not is_numeric(values):
        known = values.notna()
        if wrong := [value for value in values[known] if not _parses_as_number(value)]:
            raise ValueError(f"Column '{name}' should hold numbers, but holds '{wrong[0]}'.")
        values = values.astype(object).where(known, np.nan).astype(float)
    numbers: Array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if too_large := int((np.abs(numbers) > _LARGEST).sum()):
        raise _too_large(name, too_large)
    return numbers


def _stray_texts(values: Any) -> list[str]:
    """Texts in a column of which at least nine values in ten are numbers."""
    known = values[values.notna()]
    texts = [str(value) for value in known if not _parses_as_number(value)]
    return texts if 10 * len(texts) <= len(known) else []


def check_decimal_points(values: Any, name: str) -> None:
    """Raise ValueError for a column of texts that are all numbers, some of them with a decimal comma."""
    texts = [str(value).strip() for value in values[values.notna()]]
    commas = [text for text in texts if "," in text]
    if commas and all(map(_COMMA_NUMBER.fullmatch, texts)):
        points = [text for text in texts if "." in text]
        found = join_names([f"'{text}'" for text in dict.fromkeys([*commas[:1], *points[:1]])])
        advice = "Save the file with points for decimals and nothing between thousands"
        # Only where a comma cannot separate thousands. pandas' `thousands` drops every point, those of dates included.
        if not points and max(text.count(",") for text in texts) == 1 and not all(map(_THOUSANDS.fullmatch, commas)):
            advice += ", for instance with pandas: "
            advice += "read_csv('OLD.csv', sep=';', decimal=',').to_csv('NEW.csv', index=False)"
        raise ValueError(f"Column '{name}' should hold numbers with decimal points, but holds {found}. {advice}.")


def _too_large(name: str, count: int) -> ValueError:
    return ValueError(f"Column '{name}' should hold finite numbers, but {count} are infinite or above {_LARGEST:g}.")


def _parses_as_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def value_texts(values: Any) -> list[str]:
    """Text of each value; whole numbers without decimals, so that 1 and 1.0 are one category."""
    known = values.notna()
    return [label_name(value) if present else _MISSING for value, present in zip(values, known, strict=True)]


def _counts(counts: Mapping[str, int]) -> str:
    return join_first([f"{name} ({count})" for name, count in counts.items()], 12)
