"""Deep feature reweighting: L1 logistic regressions on group-balanced subsamples, averaged."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from momentalign._types import Array, Integers
from momentalign.linear._head import LinearHead
from momentalign.linear._reweighting import split_groups, subsample_groups, worst_accuracy

PUBLISHED_CS = (1.0, 0.7, 0.3, 0.1, 0.07, 0.03, 0.01)
"""Inverse strengths of L1 that DFR chooses among."""


class DFRFit(NamedTuple):
    """The mean head, the chosen C, and the worst group's accuracy of each C."""

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
) -> DFRFit:
    """Choose C by the worst group's accuracy, then average L1 logistic regressions on group-balanced subsamples.

    Features are standardised by the rows that are not held out, where there are any. Refits on the held-out rows choose
    C with one fit on a balanced subsample of one half of every group, scored on the other half; refits on the training
    rows, with one on a balanced subsample of them, scored on all held-out rows. Several classes are fitted one against
    the rest. liblinear penalises the intercept as well.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        groups: Any integers, shape (n,); every group has two rows or more to refit on, and one to score.
        held_out: Mask, shape (n,).
        refit_on: `"validation"`, the held-out rows, or `"training"`, the others.
        classes: C.
        Cs: Candidates; ties go to the earlier one.
        refits: Number of subsamples.
        random: Draws the halves, then the subsample to choose by, then those to refit on.
        max_iter: Maximum number of iterations of a fit.

    Returns:
        The fit, its head for features as they were given.
    """
    scaler = StandardScaler().fit(features if held_out.all() else features[~held_out])
    X = scaler.transform(np.asarray(features, dtype=np.float64))
    source = np.flatnonzero(held_out if refit_on == "validation" else ~held_out)
    tuned, scored = source, np.flatnonzero(held_out)
    if refit_on == "validation":
        half = split_groups(groups[source], 0.5, random)
        tuned, scored = source[half], source[~half]

    def fit(rows: NDArray[np.intp], C: float) -> tuple[Array, Array, int]:
        seed = int(random.randint(2**31 - 1))
        return _fit_l1(X[rows], targets[rows], classes, C=C, max_iter=max_iter, random_state=seed)

    drawn = tuned[subsample_groups(groups[tuned], random)]
    scores = []
    for C in Cs:
        coef, intercept, _ = fit(drawn, C)
        right = LinearHead(coef, intercept, 0.0, 0, True).predict(X[scored]) == targets[scored]
        scores.append(worst_accuracy(right, groups[scored]))
    chosen = float(Cs[int(np.argmax(scores))])
    fits = [fit(source[subsample_groups(groups[source], random)], chosen) for _ in range(refits)]
    coef = np.mean([fit[0] for fit in fits], axis=0) / scaler.scale_
    intercept = np.mean([fit[1] for fit in fits], axis=0) - coef @ scaler.mean_
    head = LinearHead(coef, intercept, np.nan, max(fit[2] for fit in fits), True)
    return DFRFit(head, chosen, np.array(scores))


def _fit_l1(X: Array, targets: Integers, classes: int, **options: Any) -> tuple[Array, Array, int]:
    """Coefficients, intercepts and iterations of L1 logistic regressions: one for two classes, else one for each."""
    missing = np.setdiff1d(np.arange(classes), targets)
    if len(missing):
        raise ValueError(
            f"A group-balanced subsample should hold all {classes} classes, but one of {len(X)} rows holds "
            f"{classes - len(missing)}. Use groups of class and attribute, or merge the smallest groups."
        )
    # scikit-learn 1.8 replaced the penalty's name by a ratio.
    renamed = LogisticRegression().get_params()["penalty"] == "deprecated"
    model = LogisticRegression(**({"l1_ratio": 1.0} if renamed else {"penalty": "l1"}), solver="liblinear", **options)
    fits = []
    for label in [1] if classes == 2 else range(classes):
        model.fit(X, targets == label)
        fits.append((model.coef_[0], model.intercept_[0], int(np.max(model.n_iter_))))
    coefs, intercepts, iterations = zip(*fits, strict=True)
    return np.stack(coefs), np.array(intercepts), max(iterations)
