"""Which columns differ between domains, by distances of means with the noise removed."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import f_classif

from momentalign._types import Array, Integers
from momentalign.tables._columns import Column
from momentalign.tables._plain_fits import LEVEL


@dataclass(frozen=True, eq=False)
class ColumnShift:
    """How much one column of the table differs between domains.

    Args:
        name: Of the column.
        share: Of the squared distances between the domains' means, noise removed.
        found: Whether an F test finds a difference, its p below 0.05 over the number of columns.
        what: The category that differs most; empty for a number.
        means: Of each domain, in the column's own units, or shares of that category; shape (K,).
        standard: The same from the mean of all rows, in standard deviations; shape (K,).
        missing: Share of missing values in each domain, shape (K,).
    """

    name: str
    share: float
    found: bool
    what: str
    means: Array
    standard: Array
    missing: Array


def rank_columns(
    numbers: Array, missing: NDArray[np.bool_], columns: Sequence[Column], domains: Integers, count: int
) -> list[ColumnShift]:
    """Rank the columns of a table by their contribution to the distances between domains.

    Args:
        numbers: Encoded rows, not standardised, shape (n, D).
        missing: Whether the value was missing, one column for each of `columns`, shape (n, len(columns)).
        columns: What the D numbers are.
        domains: Index of each row's domain.
        count: Number of domains K.
    """
    center, scale = numbers.mean(0), numbers.std(0)
    scale[scale == 0] = 1.0
    standard = (numbers - center) / scale
    means, noise = _domain_means(standard, domains, count)
    spread = means.var(0, ddof=1) - noise.mean(0)
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore")  # about columns that are constant within every domain
        p_values = f_classif(numbers, domains)[1]
    differs = p_values < (1 - LEVEL) / len(p_values)
    shares, _ = _domain_means(missing.astype(np.float64), domains, count)
    total = float(spread.clip(min=0).sum()) or 1.0
    found, start = [], 0
    for index, column in enumerate(columns):
        own = slice(start, start + column.width)
        start += column.width
        most = own.start + int(spread[own].argmax())
        found.append(
            ColumnShift(
                column.name,
                float(spread[own].clip(min=0).sum()) / total,
                bool(differs[own].any()),
                "" if column.categories is None else column.categories[most - own.start],
                means[:, most] * scale[most] + center[most],
                means[:, most],
                shares[:, index],
            )
        )
    return sorted(found, key=lambda column: -column.share)


def _domain_means(values: Array, domains: Integers, count: int) -> tuple[Array, Array]:
    """Means of the columns in each domain, and the variances of these means; both (K, D)."""
    sizes = np.bincount(domains, minlength=count)
    rows = [values[domains == index] for index in range(count)]
    means = np.stack([own.mean(0) for own in rows])
    variances = np.stack([own.var(0, ddof=1) if len(own) > 1 else np.full(values.shape[1], np.nan) for own in rows])
    # A domain with one row gets the variance within the others.
    known = sizes > 1
    within = np.average(variances[known], axis=0, weights=sizes[known] - 1) if known.any() else 0.0
    variances[~known] = within
    return means, variances / sizes[:, None]
