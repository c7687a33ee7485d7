"""Automatic feature reweighting: a plain head, refitted on held-out rows that it gets wrong."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from momentalign._types import Array, Integers
from momentalign.linear._alignment_objective import AlignmentObjective
from momentalign.linear._head import LinearHead
from momentalign.linear._held_out import Scored, held_out_scores
from momentalign.linear._path import fit_head
from momentalign.linear._reweighting import unit_l2
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import solve, warn_if_stopped


class AFRFit(NamedTuple):
    """The refitted head, the chosen γ and L2, and the worst accuracy of each pair (g, m), empty for one."""

    head: LinearHead
    gamma: float
    l2: float
    scores: Array


def afr_weights(
    targets: Integers, probabilities: Array, gamma: float, sample_weight: NDArray[np.floating] | None = None
) -> Array:
    r"""Weights (n,) of AFR with mean one: :math:`\exp(-\gamma p_i)` over the frequency of the row's class.

    Args:
        targets: Class indices, shape (n,).
        probabilities: Of all classes under the first head, shape (n, C).
        gamma: γ: 0 balances the classes only.
        sample_weight: Weight of each row, shape (n,).

    Example:
        >>> afr_weights(np.array([0, 1]), np.array([[0.9, 0.1], [0.9, 0.1]]), 4.0).round(2)
        array([0.08, 1.92])
    """
    true = probabilities[np.arange(len(targets)), targets]
    given = np.ones(len(targets)) if sample_weight is None else sample_weight
    frequencies = np.bincount(targets, weights=given, minlength=probabilities.shape[1])
    weights = given * np.exp(-gamma * (true - true.min())) / np.where(frequencies > 0, frequencies, 1.0)[targets]
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
    features: NDArray[np.floating],
    targets: Integers,
    *,
    held_out: NDArray[np.bool_],
    scored: Scored,
    gammas: Sequence[float],
    l2s: Sequence[float],
    random: np.random.RandomState,
    folds: int = 5,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float | None = None,
    classes: int,
    **options: Any,
) -> AFRFit:
    """Fit a plain head on some rows and refit it on the others, with the weights of AFR.

    The published refit takes steps of gradient descent; this one has converged. For two classes, whose head is one
    logit, the published weight of the squared distance is the L2 here; for more it is half of it.

    Args:
        features: Shape (n, d).
        targets: Class indices, shape (n,).
        held_out: Mask of the rows that are refitted, shape (n,).
        scored: The rows that choose γ and L2, see :func:`held_out_scores`; left out of both fits.
        gammas: Candidates for γ; ties go to the earlier pair.
        l2s: Candidates for the weight of half the squared distance from the plain head. A single pair is not scored.
        random: Draws the folds.
        folds: Number of folds, where scored rows are also fitted.
        sample_weight: Shape (n,).
        l2: Weight of half the squared norm of the plain head's coefficients; None is :func:`unit_l2`.
        classes: Number of classes.
        **options: `bias`, `tol` and `max_iter` of :func:`fit_path`.

    Returns:
        The fit.

    Raises:
        ValueError: If a fold leaves no row for one of the fits.
    """
    pairs = list(product(gammas, l2s))

    def fit(rows: NDArray[np.intp], candidates: Sequence[tuple[float, float]]) -> list[LinearHead]:
        first, second = rows[~held_out[rows]], rows[held_out[rows]]
        if not (len(first) and len(second)):
            raise ValueError(
                f"AFR should have rows for both of its fits in every fold, but one has none: {len(targets)} rows are "
                "too few to choose γ and L2 by. Pass one candidate of each."
            )
        before, after = (None if sample_weight is None else sample_weight[part] for part in (first, second))
        strength = unit_l2(len(first), before) if l2 is None else l2
        X, y = features[second], targets[second]
        plain = fit_head(features[first], targets[first], sample_weight=before, l2=strength, classes=classes, **options)
        probabilities = softmax(plain.logits(X), axis=1)
        heads = []
        for gamma, distance in candidates:
            weights = afr_weights(y, probabilities, gamma, after)
            head = fit_towards(plain, X, y, sample_weight=weights, l2=distance, **options)
            heads.append(replace(head, n_iter=max(plain.n_iter, head.n_iter)))
        return heads

    every, best, scores = np.arange(len(targets)), 0, np.empty((0, 0))
    if len(pairs) > 1:
        each = held_out_scores(
            lambda rows: fit(rows, pairs), features, targets, every, scored, folds=folds, random=random
        )
        best, scores = int(np.argmax(each)), each.reshape(len(gammas), len(l2s))
    (head,) = fit(every, [pairs[best]])
    return AFRFit(head, float(pairs[best][0]), float(pairs[best][1]), scores)
