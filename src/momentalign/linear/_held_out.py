"""Choose among heads by the worst group or class of rows that they were not fitted on."""

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import PredefinedSplit

from momentalign._types import Array, Integers
from momentalign.linear._head import LinearHead


class Scored(NamedTuple):
    """Indices of the rows that decide (m,), and the group or class of each (m,)."""

    rows: NDArray[np.intp]
    units: Integers


def stratified_folds(
    strata: Integers, folds: int, random: np.random.RandomState
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Shuffled folds with every stratum spread evenly; unlike for StratifiedKFold, strata may have very few rows."""
    shuffled = random.permutation(len(strata))
    fold = np.empty(len(strata), dtype=np.int64)
    fold[shuffled[np.argsort(strata[shuffled], kind="stable")]] = np.arange(len(strata)) % folds
    return list(PredefinedSplit(fold).split())


def worst_accuracy(right: NDArray[np.bool_], units: Integers) -> float:
    """Smallest share of rows (n,) that are right in a group or class.

    Example:
        >>> worst_accuracy(np.array([True, True, False, True]), np.array([0, 0, 1, 1]))
        0.5
    """
    return min(float(right[units == unit].mean()) for unit in np.unique(units))


def held_out_scores(
    fit: Callable[[NDArray[np.intp]], Sequence[LinearHead]],
    features: NDArray[np.floating],
    targets: Integers,
    fitted: NDArray[np.intp],
    scored: Scored,
    *,
    folds: int,
    random: np.random.RandomState,
) -> Array:
    """Accuracy of the worst unit under each candidate, fitted without the rows that it is scored on.

    Args:
        fit: Returns the heads of all candidates for the indices of some of the fitted rows.
        features: Shape (n, d).
        targets: Class indices, shape (n,).
        fitted: Indices of the rows to fit on. If scored rows are among them, they are left out fold by fold.
        scored: The rows to score.
        folds: Number of folds.
        random: Draws the folds.

    Returns:
        One score for each candidate.
    """
    answers = targets[scored.rows]
    splits = [(fitted, np.arange(len(scored.rows)))]
    if np.isin(scored.rows, fitted).any():
        strata = np.unique(np.column_stack([scored.units, answers]), axis=0, return_inverse=True)[1].ravel()
        parts = stratified_folds(strata, min(folds, len(strata)), random)
        splits = [(np.setdiff1d(fitted, scored.rows[test]), test) for _, test in parts]
    hits: list[NDArray[np.bool_]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that are only compared need not have converged
        for rows, test in splits:
            right = [head.predict(features[scored.rows[test]]) == answers[test] for head in fit(rows)]
            hits.append(np.stack(right))
    order = np.argsort(np.concatenate([test for _, test in splits]), kind="stable")
    return np.array([worst_accuracy(right, scored.units) for right in np.hstack(hits)[:, order]])
