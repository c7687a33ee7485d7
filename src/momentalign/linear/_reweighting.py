r"""Rows reweighted or drawn for worst groups, and refits towards a head.

Balanced weights (RWG) and subsamples (SUBG) need the rows' groups; the weights of JTT and AFR come from a first head's
mistakes and need none.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from momentalign._types import Array, Integers
from momentalign.linear._head import LinearHead
from momentalign.linear._objective import AlignmentObjective
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import solve, warn_if_stopped


def balance_weights(groups: Integers) -> Array:
    """Weights (n,) with mean one under which all groups (n,) count alike.

    Example:
        >>> balance_weights(np.array([0, 0, 0, 1]))
        array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    weights: Array = len(groups) / (len(sizes) * sizes[codes])
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


def worst_accuracy(right: NDArray[np.bool_], groups: Integers) -> float:
    """Smallest share of rows (n,) that are right in a group.

    Example:
        >>> worst_accuracy(np.array([True, True, False, True]), np.array([0, 0, 1, 1]))
        0.5
    """
    return min(float(right[groups == group].mean()) for group in np.unique(groups))


def jtt_weights(targets: Integers, predicted: Integers, upweight: float) -> Array:
    """Weights (n,) of JTT: `upweight` for rows that the first head misclassifies, 1 for the others.

    Example:
        >>> jtt_weights(np.array([0, 1, 1]), np.array([0, 0, 1]), 5.0)
        array([1., 5., 1.])
    """
    return np.where(np.asarray(targets) == predicted, 1.0, upweight)


def afr_weights(targets: Integers, probabilities: Array, gamma: float) -> Array:
    r"""Weights (n,) of AFR with mean one: :math:`\exp(-\gamma p_i)` over the frequency of the row's class.

    Args:
        targets: Class indices, shape (n,).
        probabilities: Of all classes under the first head, shape (n, C).
        gamma: γ: 0 balances the classes only.

    Example:
        >>> afr_weights(np.array([0, 1]), np.array([[0.9, 0.1], [0.9, 0.1]]), 4.0).round(2)
        array([0.08, 1.92])
    """
    true = probabilities[np.arange(len(targets)), targets]
    frequencies = np.bincount(targets, minlength=probabilities.shape[1])[targets] / len(targets)
    weights = np.exp(-gamma * (true - true.min())) / frequencies
    normalised: Array = weights / weights.mean()
    return normalised


def fit_towards(
    head: LinearHead,
    features: NDArray[np.floating],
    targets: Integers,
    *,
    sample_weight: Array | None = None,
    l2: float = 1e-3,
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> LinearHead:
    r"""Refit a head on other rows or weights, with L2 towards where it was.

    Minimises the weighted mean cross-entropy plus half of `l2` times the squared distance from `head`, intercepts
    included.

    Args:
        head: Its classes are those of the fit.
        features: Shape (n, d).
        targets: Class indices, shape (n,).
        sample_weight: Shape (n,).
        l2: Large values return `head`.
        bias: Whether to fit the intercepts.
        tol: Largest entry of the gradient at the solution.
        max_iter: Maximum number of iterations.

    Returns:
        The refitted head.

    Example:
        >>> head = LinearHead(np.array([[1.0]]), np.array([0.0]), 0.0, 0, True)
        >>> fit_towards(head, np.array([[0.0], [1.0]]), np.array([1, 0]), l2=1e6).coef.round(2)
        array([[1.]])
    """
    # The column of ones counts as a feature: distances include the intercepts'.
    rows = replace(SortedRows.sort(features, targets, None, sample_weight, bias=bias), bias=False)
    objective = AlignmentObjective(rows, max(len(head.coef), 2), l2=l2)
    start = np.column_stack([head.coef, head.intercept] if bias else [head.coef]).ravel()

    def function(point: Array) -> tuple[float, Array]:
        value, gradient = objective(point)
        return value + l2 * float(0.5 * start @ start - start @ point), gradient - l2 * start

    solution = solve(function, start, objective.coordinates, tol=tol, max_iter=max_iter)
    warn_if_stopped(solution.converged, max_iter)
    return LinearHead.of(solution, objective.shape, bias=bias)


def fit_afr(
    plain: LinearHead,
    features: NDArray[np.floating],
    targets: Integers,
    units: Integers,
    held_out: NDArray[np.bool_],
    *,
    gammas: Sequence[float],
    l2: float,
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> tuple[LinearHead, float]:
    """Refit a plain head on the held-out rows with the weights of AFR.

    Args:
        plain: Head of the other rows.
        features: Of all rows, shape (n, d).
        targets: Class indices, shape (n,).
        units: Group of each row, shape (n,); the accuracy of the worst on the rows not held out chooses γ.
        held_out: Mask of the rows that are refitted, shape (n,).
        gammas: Candidates for γ; ties go to the earlier one.
        l2: Weight of half the squared distance from `plain`.
        bias: Whether to fit the intercepts.
        tol: Largest entry of the gradient at the solution.
        max_iter: Maximum number of iterations.

    Returns:
        The head, and the chosen γ.
    """
    probabilities = softmax(plain.logits(features[held_out]), axis=1)
    heads, scores = [], []
    for gamma in gammas:
        weights = afr_weights(targets[held_out], probabilities, gamma)
        head = fit_towards(
            plain,
            features[held_out],
            targets[held_out],
            sample_weight=weights,
            l2=l2,
            bias=bias,
            tol=tol,
            max_iter=max_iter,
        )
        heads.append(head)
        scores.append(worst_accuracy(head.predict(features[~held_out]) == targets[~held_out], units[~held_out]))
    best = int(np.argmax(scores))
    return replace(heads[best], n_iter=max(plain.n_iter, heads[best].n_iter)), float(gammas[best])
