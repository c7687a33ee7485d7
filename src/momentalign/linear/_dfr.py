"""Deep feature reweighting: L1 logistic regressions on group-balanced subsamples, averaged."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from momentalign._types import Array, Integers
from momentalign.linear._head import LinearHead
from momentalign.linear._reweighting import check_subsample, split_groups, subsample_groups

PUBLISHED_CS = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
"""Inverse strengths of L1 that DFR chooses among."""
PUBLISHED_REFITS = {"validation": 20, "training": 10}
"""Numbers of refits that DFR averages."""


class DFRFit(NamedTuple):
    """The mean head, the chosen C, and the worst group's or class's accuracy of each C."""

    head: LinearHead
    C: float
    scores: Array


def fit_dfr(
    features: NDArray[np.floating],
    targets: Integers,
    groups: Integers,
    *,
    held_out: NDArray[np.bool_],
    refit_on: str,
    classes: int,
    Cs: Sequence[float],
    refits: int,
    random: np.random.RandomState,
    max_iter: int,
    sample_weight: NDArray[np.floating] | None = None,
) -> DFRFit:
    """Choose C by the worst accuracy, then average L1 logistic regressions on group-balanced subsamples.

    Features are standardised by the rows that are not held out, where there are any. C is chosen with one fit on a
    balanced subsample of the rows to refit on, and scored on the held-out rows. Where these are the same, one half of
    every group is fitted and the other scored. Several classes are fitted one against the rest. liblinear penalises the
    intercept as well.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        groups: Any integers, shape (n,); every group has two rows or more to refit on.
        held_out: Mask, shape (n,).
        refit_on: `"validation"`, the held-out rows, or `"training"`, the others.
        classes: Number of classes.
        Cs: Candidates; ties go to the earlier one.
        refits: Number of subsamples.
        random: Draws the halves, then the subsample to choose by, then those to refit on.
        max_iter: Maximum number of iterations of a fit.
        sample_weight: Weight of each row in the fits, shape (n,).

    Returns:
        The fit, its head for features as they were given.
    """
    reference = np.flatnonzero(np.ones_like(held_out) if held_out.all() else ~held_out)
    weights = np.ones(len(features)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    scaler = StandardScaler().fit(features[reference], sample_weight=weights[reference])
    X = scaler.transform(np.asarray(features, dtype=np.float64))
    source = np.flatnonzero(held_out if refit_on == "validation" else ~held_out)
    tuned, scored = source, np.flatnonzero(held_out)
    if refit_on == "validation":
        half = split_groups(groups[source], 0.5, random)
        tuned, scored = source[half], source[~half]

    # scikit-learn 1.8 replaced the penalty's name by a ratio.
    renamed = LogisticRegression().get_params()["penalty"] == "deprecated"
    l1: dict[str, Any] = {"l1_ratio": 1.0} if renamed else {"penalty": "l1"}

    def fit(rows: NDArray[np.intp], C: float) -> LinearHead:
        seed = int(random.randint(2**31 - 1))
        model = LogisticRegression(**l1, C=C, solver="liblinear", max_iter=max_iter, random_state=seed)
        check_subsample(targets[rows], classes)
        fits = [
            clone(model).fit(X[rows], targets[rows] == label, sample_weight=weights[rows])
            for label in ([1] if classes == 2 else range(classes))
        ]
        coef, intercept = (np.concatenate([getattr(fit, name) for fit in fits]) for name in ("coef_", "intercept_"))
        return LinearHead(coef, intercept, np.nan, max(int(fit.n_iter_.max()) for fit in fits), True)

    drawn = tuned[subsample_groups(groups[tuned], random)]
    scores = []
    for C in Cs:
        right = fit(drawn, C).predict(X[scored]) == targets[scored]
        scores.append(min(float(right[groups[scored] == group].mean()) for group in np.unique(groups[scored])))
    chosen = float(Cs[int(np.argmax(scores))])
    head = LinearHead.mean([fit(source[subsample_groups(groups[source], random)], chosen) for _ in range(refits)])
    coef = head.coef / scaler.scale_
    return DFRFit(replace(head, coef=coef, intercept=head.intercept - coef @ scaler.mean_), chosen, np.array(scores))
