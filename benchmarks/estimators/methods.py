"""Methods of the study: fitted on a cell's training domains, scored on the domain left out."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.metrics import r2_score

from momentalign.linear import fit_path
from momentalign.sklearn import (
    MomentAlignedClassifier,
    MomentAlignedClassifierCV,
    MomentAlignedRegressor,
    MomentAlignedRegressorCV,
)

L2S = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_TOL = 1e-3  # for fits with fixed weights: accuracies no longer change below it, and Hessian fits take half the time

RELATIVE = {
    "ERM": {},
    "gradient 1": {1: 1.0},
    "gradient 10": {1: 10.0},
    "gradient 100": {1: 100.0},
    "Hessian 1": {2: 1.0},
    "Hessian 10": {2: 10.0},
    "Hessian 100": {2: 100.0},
    "both 1, 1": {1: 1.0, 2: 1.0},
    "both 1, 10": {1: 1.0, 2: 10.0},
    "both 10, 10": {1: 10.0, 2: 10.0},
}
THIRD = {"third 1": {3: 1.0}, "third 10": {3: 10.0}}  # two classes: with seven it takes minutes
ABSOLUTE = {
    "gradient 0.1, absolute": {1: 0.1},
    "gradient 1, absolute": {1: 1.0},
    "Hessian 0.0001, absolute": {2: 1e-4},
    "Hessian 0.01, absolute": {2: 1e-2},
}
PUBLISHED = {"both 10, 1000, parameters": {1: 10.0, 2: 1000.0}, "both 5000, 100, parameters": {1: 5000.0, 2: 100.0}}
"""Weights by order. Absolute is the paper's formula, `parameters` the units of its probes: Waterbirds and CelebA."""


class CellRows(NamedTuple):
    """A cell's rows after preprocessing."""

    train: NDArray[np.float64]
    train_targets: NDArray[Any]
    domains: NDArray[np.str_]
    test: NDArray[np.float64]
    test_targets: NDArray[Any]


MethodResult = dict[str, Any]


def classification(rows: CellRows) -> Iterator[tuple[str, MethodResult]]:
    """Fit and score the classifiers: names with their accuracy and the settings they chose."""
    X, y, n = rows.train, rows.train_targets, len(rows.train)

    def score(model: Any) -> MethodResult:
        return {"accuracy": float(np.mean(model.predict(rows.test) == rows.test_targets))}

    def search(**options: Any) -> tuple[MomentAlignedClassifierCV, MethodResult]:
        cv = MomentAlignedClassifierCV(**options).fit(X, y, domains=rows.domains)
        names = ("gradient_weight", "hessian_weight", "l2", "balanced")
        return cv, score(cv) | {name: getattr(cv, f"{name}_") for name in names}

    yield "LogisticRegression", score(LogisticRegression(max_iter=10_000).fit(X, y))
    tuned = LogisticRegressionCV(Cs=[1 / (l2 * n) for l2 in L2S], max_iter=10_000)
    yield "LogisticRegressionCV", score(tuned.fit(X, y))
    cv, result = search()
    yield "CV", result
    yield "CV, rule best", search(rule="best")[1]
    yield "CV, by accuracy", search(scoring="accuracy")[1]
    yield "CV, pairs of weights", search(combine=True)[1]
    yield "default classifier", score(MomentAlignedClassifier().fit(X, y, domains=rows.domains))

    # From here on at the L2 that leave-one-domain-out chose for the plain model, to isolate what the weights add.
    plain = LogisticRegression(C=1 / (cv.l2_ * n), max_iter=10_000).fit(X, y)
    yield "L2 by domains left out", score(plain) | {"l2": cv.l2_}
    codes = np.unique(rows.domains, return_inverse=True)[1]
    grids = {"relative": RELATIVE | (THIRD if len(cv.classes_) == 2 else {}), "none": ABSOLUTE, "parameters": PUBLISHED}
    for scaling, grid in grids.items():
        heads = fit_path(X, y, codes, list(grid.values()), l2=cv.l2_, scaling=scaling, tol=_TOL)
        for name, head in zip(grid, heads, strict=True):
            logits = rows.test @ head.coef.T + head.intercept
            predicted = logits[:, 0] > 0 if logits.shape[1] == 1 else logits.argmax(1)
            yield name, {"accuracy": float(np.mean(predicted == rows.test_targets))}


def regression(rows: CellRows) -> Iterator[tuple[str, MethodResult]]:
    """Fit and score the regressions: names with R², root mean squared error and the settings they chose."""
    X, y, n = rows.train, rows.train_targets, len(rows.train)

    def score(model: Any) -> MethodResult:
        predictions = model.predict(rows.test)
        error = float(np.sqrt(np.mean(np.square(predictions - rows.test_targets))))
        return {"r2": float(r2_score(rows.test_targets, predictions)), "rmse": error}

    def aligned(l2: float, scaling: str, weight: float) -> MethodResult:
        return score(MomentAlignedRegressor(weight, l2=l2, scaling=scaling).fit(X, y, domains=rows.domains))

    yield "Ridge", score(Ridge().fit(X, y))
    yield "RidgeCV", score(RidgeCV([l2 * n for l2 in L2S]).fit(X, y))
    yield "default regressor", score(MomentAlignedRegressor().fit(X, y, domains=rows.domains))
    for name, rule in (("CV", "cautious"), ("CV, rule best", "best")):
        cv = MomentAlignedRegressorCV(rule=rule).fit(X, y, domains=rows.domains)
        yield name, score(cv) | {"gradient_weight": cv.gradient_weight_, "l2": cv.l2_, "balanced": cv.balanced_}
    l2 = cv.l2_
    yield "L2 by domains left out", score(Ridge(alpha=l2 * n).fit(X, y)) | {"l2": l2}
    yield "ERM", aligned(l2, "relative", 0.0)
    for weight in (1.0, 10.0, 100.0, 1000.0):
        yield f"gradient {weight:g}", aligned(l2, "relative", weight)
    for weight in (0.1, 1.0, 10.0):
        yield f"gradient {weight:g}, absolute", aligned(l2, "none", weight)


def all_methods(rows: CellRows, *, is_regression: bool) -> dict[str, MethodResult]:
    """Every method's result on a cell by name, in the order of the tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about defaults that scikit-learn will change
        warnings.simplefilter("ignore", ConvergenceWarning)
        if is_regression:
            return dict(regression(rows))
        return dict(classification(rows))
