"""Weights and draws of rows that balance the groups."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array, Integers
from momentalign.linear._head import LinearHead
from momentalign.linear._path import fit_head


def unit_l2(rows: int, sample_weight: NDArray[np.floating] | None = None) -> float:
    """L2 of scikit-learn's `LogisticRegression()` and `Ridge()`: one over the number, or weight, of the rows."""
    return 1.0 / (rows if sample_weight is None else float(sample_weight.sum()))


def balance_weights(groups: Integers, sample_weight: NDArray[np.floating] | None = None) -> Array:
    """Weights (n,) with mean one that balance the groups (n,), rows in each by `sample_weight` (n,).

    Example:
        >>> balance_weights(np.array([0, 0, 0, 1]))
        array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    _, codes = np.unique(groups, return_inverse=True)
    given = np.ones(len(groups)) if sample_weight is None else sample_weight
    totals = np.bincount(codes, weights=given)
    weights: Array = given * len(groups) / ((totals > 0).sum() * np.where(totals > 0, totals, 1.0)[codes])
    return weights


def subsample_groups(groups: Integers, random: np.random.RandomState) -> NDArray[np.intp]:
    """Sorted indices of a random subsample with as many rows of every group as the smallest has.

    Example:
        >>> groups = np.array([0, 0, 0, 1, 1])
        >>> groups[subsample_groups(groups, np.random.RandomState(0))]
        array([0, 0, 1, 1])
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    members = [np.flatnonzero(codes == code) for code in range(len(sizes))]
    return np.sort(np.concatenate([random.permutation(rows)[: sizes.min()] for rows in members]))


def split_groups(groups: Integers, fraction: float, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Mask of a random `fraction` of every group's rows: at least one of each, and not all of a group of two or more.

    Example:
        >>> split_groups(np.array([0, 0, 0, 0, 1, 1]), 0.5, np.random.RandomState(0)).sum()
        np.int64(3)
    """
    chosen = np.zeros(len(groups), dtype=bool)
    for group in np.unique(groups):
        rows = random.permutation(np.flatnonzero(groups == group))
        chosen[rows[: max(1, min(round(fraction * len(rows)), len(rows) - 1))]] = True
    return chosen


def fit_subsampled(
    features: NDArray[np.floating],
    targets: Integers,
    groups: Integers,
    *,
    draws: int,
    random: np.random.RandomState,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float | None = None,
    classes: int,
    **options: Any,
) -> LinearHead:
    """Mean of the heads of group-balanced subsamples (SUBG).

    Args:
        features: Shape (n, d).
        targets: Class indices, shape (n,).
        groups: Any integers, shape (n,).
        draws: Number of subsamples.
        random: Draws them, whatever the weights.
        sample_weight: Weight of each row in the fits, shape (n,).
        l2: Weight of half the squared norm of the coefficients; None is :func:`unit_l2` of a subsample.
        classes: Number of classes.
        **options: `bias`, `tol` and `max_iter` of :func:`fit_path`.

    Returns:
        The head.
    """
    heads = []
    for _ in range(draws):
        rows = subsample_groups(groups, random)
        check_subsample(targets[rows], classes)
        weights = None if sample_weight is None else sample_weight[rows]
        strength = unit_l2(len(rows), weights) if l2 is None else l2
        heads.append(
            fit_head(features[rows], targets[rows], sample_weight=weights, l2=strength, classes=classes, **options)
        )
    return LinearHead.mean(heads)


def check_subsample(targets: Integers, classes: int) -> None:
    """Raise a ValueError for a subsample without rows of a class."""
    found = len(np.unique(targets))
    if found < classes:
        raise ValueError(
            f"A group-balanced subsample should hold all {classes} classes, but one of {len(targets)} rows holds "
            f"{found}. Use groups of class and attribute, or merge the smallest groups."
        )
