"""Just train twice: a second head with more weight on the rows that the first one misclassifies."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array, Integers
from momentalign.linear._head import LinearHead
from momentalign.linear._held_out import Scored, held_out_scores
from momentalign.linear._path import fit_head
from momentalign.linear._reweighting import unit_l2


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
    **options: Any,
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
        **options: `classes`, `bias`, `tol` and `max_iter` of :func:`fit_path`.

    Returns:
        The fit.
    """
    pairs = list(product(first_l2_factors, upweights))

    def fit(rows: NDArray[np.intp], candidates: Sequence[tuple[float, float]]) -> list[LinearHead]:
        X, y = features[rows], targets[rows]
        given = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        strength = unit_l2(len(rows), given) if l2 is None else l2
        firsts = {
            factor: fit_head(X, y, sample_weight=given, l2=factor * strength, **options)
            for factor in {factor for factor, _ in candidates}
        }
        predicted = {factor: first.predict(X) for factor, first in firsts.items()}
        heads = []
        for factor, upweight in candidates:
            weights = given * jtt_weights(y, predicted[factor], upweight)
            head = fit_head(X, y, sample_weight=weights, l2=strength, **options)
            heads.append(replace(head, n_iter=max(firsts[factor].n_iter, head.n_iter)))
        return heads

    best, scores = 0, np.empty((0, 0))
    if len(pairs) > 1:
        each = held_out_scores(
            lambda rows: fit(rows, pairs), features, targets, fitted, scored, folds=folds, random=random
        )
        best, scores = int(np.argmax(each)), each.reshape(len(first_l2_factors), len(upweights))
    (head,) = fit(fitted, [pairs[best]])
    return JTTFit(head, float(pairs[best][0]), float(pairs[best][1]), scores)
