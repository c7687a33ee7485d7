"""Just train twice: a second head with more weight on the rows that the first one misclassifies."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array, Integers
from momentalign.linear._alignment_objective import AlignmentObjective
from momentalign.linear._head import LinearHead
from momentalign.linear._held_out import Scored, held_out_scores
from momentalign.linear._path import solve_path
from momentalign.linear._reweighting import unit_l2
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import solve, warn_if_stopped

_LOOSER = 10.0


class JTTFit(NamedTuple):
    """The second head, the chosen factor and weight, and the worst accuracy of each pair (f, m), empty for one."""

    head: LinearHead
    first_l2_factor: float
    upweight: float
    scores: Array


def jtt_weights(targets: Integers, predicted: Integers, upweight: float) -> Array:
    """Weights (n,) of JTT: `upweight` for rows that the first head misclassifies, 1 for the others.

    Example:
        >>> jtt_weights(np.array([0, 1, 1]), np.array([0, 0, 1]), 5.0)
        array([1., 5., 1.])
    """
    return np.where(np.asarray(targets) == predicted, 1.0, upweight)


def fit_jtt(
    features: NDArray[np.floating],
    targets: Integers,
    *,
    fitted: NDArray[np.intp],
    scored: Scored,
    first_l2_factors: Sequence[float],
    upweights: Sequence[float],
    random: np.random.RandomState,
    folds: int = 5,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float | None = None,
    classes: int,
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> JTTFit:
    """Fit twice, with the weight of the misclassified rows that is best for the worst group or class.

    The published first model stops early; this one has converged, with L2 in the place of the number of epochs.

    Args:
        features: Shape (n, d).
        targets: Class indices, shape (n,).
        fitted: Indices of the rows to fit on.
        scored: The rows that choose among the weights, see :func:`held_out_scores`.
        first_l2_factors: Candidates for the first head's L2, times that of the second.
        upweights: Candidates for the weight of rows that the first head misclassifies; ties go to the earlier pair, and
            a single pair is not scored.
        random: Draws the folds.
        folds: Number of folds, where scored rows are also fitted.
        sample_weight: Shape (n,).
        l2: Weight of half the squared norm of the coefficients; None is :func:`unit_l2`.
        classes: Number of classes.
        bias: Whether the heads have one.
        tol: Largest entry of the gradient at a solution; ten times as much for fits that are only compared.
        max_iter: Maximum number of iterations of a fit.

    Returns:
        The fit.
    """
    pairs = list(product(first_l2_factors, upweights))

    def fit(rows: NDArray[np.intp], candidates: Sequence[tuple[float, float]], size: float) -> list[LinearHead]:
        kept = rows if sample_weight is None else rows[sample_weight[rows] > 0]
        weights = None if sample_weight is None else sample_weight[kept]
        strength = unit_l2(len(kept), weights) if l2 is None else l2
        # Without domains the order of the rows stays.
        ordered = SortedRows.sort(features[kept], targets[kept], None, weights, bias=bias)
        objective = AlignmentObjective(ordered, classes, l2=strength)
        factors = [1.0, *(factor for factor, _ in candidates)]
        firsts = solve_path(
            objective, [{}] * len(factors), l2=[factor * strength for factor in factors], tol=size, max_iter=max_iter
        )
        last, heads = firsts[0], []
        for first, (_, upweight) in zip(firsts[1:], candidates, strict=True):
            predicted = LinearHead.of(first, objective.shape, bias=bias).predict(features[kept])
            shares = ordered.shares * jtt_weights(targets[kept], predicted, upweight)
            second = AlignmentObjective(replace(ordered, shares=shares / shares.sum()), classes, l2=strength)
            last = solve(second, last.head, second.coordinates, tol=size, max_iter=max_iter)
            warn_if_stopped(first.converged and last.converged, max_iter)
            longest = last._replace(iterations=max(first.iterations, last.iterations))
            heads.append(LinearHead.of(longest, objective.shape, bias=bias))
        return heads

    best, scores = 0, np.empty((0, 0))
    if len(pairs) > 1:
        each = held_out_scores(
            lambda rows: fit(rows, pairs, _LOOSER * tol), features, targets, fitted, scored, folds=folds, random=random
        )
        best, scores = int(np.argmax(each)), each.reshape(len(first_l2_factors), len(upweights))
    (head,) = fit(fitted, [pairs[best]], tol)
    return JTTFit(head, float(pairs[best][0]), float(pairs[best][1]), scores)
