"""Methods of the study: fitted on a cell's training domains, scored on each domain left out."""

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.metrics import accuracy_score, balanced_accuracy_score, root_mean_squared_error

from momentalign.sklearn import MomentAlignedClassifierCV, MomentAlignedRegressorCV

ALPHAS = tuple(float(alpha) for alpha in np.logspace(-3, 5, 17))
"""Grid of the second RidgeCV: the default one has 0.1, 1 and 10."""

SCORES = {
    False: {"accuracy": accuracy_score, "balanced accuracy": balanced_accuracy_score},
    True: {"RMSE": root_mean_squared_error},
}
"""Scores of classifiers (False) and regressions (True)."""

BASELINES = {
    False: {"LogisticRegression": LogisticRegression, "LogisticRegressionCV": LogisticRegressionCV},
    True: {"Ridge": Ridge, "RidgeCV": RidgeCV, "RidgeCV, wide": lambda: RidgeCV(ALPHAS)},
}
SEARCHES = {False: MomentAlignedClassifierCV, True: MomentAlignedRegressorCV}
TUNED = {False: "LogisticRegressionCV", True: "RidgeCV"}
"""scikit-learn's own search, against which times are given."""

MethodResult = dict[str, Any]


class CellRows(NamedTuple):
    """A cell's rows after preprocessing."""

    train: NDArray[np.float64]
    train_targets: NDArray[Any]
    train_domains: NDArray[np.str_]
    test: NDArray[np.float64]
    test_targets: NDArray[Any]
    test_domains: NDArray[np.str_]


def all_methods(rows: CellRows, *, regression: bool) -> dict[str, MethodResult]:
    """Result of every method, all with their defaults: score of each domain, CPU seconds of the fit, what it chose."""
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about defaults that scikit-learn will change
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true")
        for name, estimator in BASELINES[regression].items():
            results[name] = _fit_and_score(estimator(), rows, regression=regression)
        search = SEARCHES[regression]()
        ours = _fit_and_score(search, rows, regression=regression, domains=rows.train_domains)
    results[type(search).__name__] = ours | {
        "chosen": describe_choice(search),
        "stepped": bool(search.balanced_ or search.l2_factor_ != 1),
        "aligned": bool(search.aligned_),
        "reason": search.reason_,
    }
    return results


def describe_choice(search: MomentAlignedClassifierCV | MomentAlignedRegressorCV) -> str:
    """Setting that a search chose, such as `10/n, gradient 1`."""
    weights = {"gradient": search.gradient_weight_, "Hessian": getattr(search, "hessian_weight_", 0.0)}
    parts = [f"{search.l2_factor_:g}/n", *(f"{order} {weight:g}" for order, weight in weights.items() if weight)]
    if search.balanced_ and not search.aligned_:
        parts.append("domains alike")
    return ", ".join(parts)


def _fit_and_score(model: Any, rows: CellRows, *, regression: bool, **options: Any) -> MethodResult:
    start = time.process_time()
    model.fit(rows.train, rows.train_targets, **options)
    seconds = time.process_time() - start
    predictions = model.predict(rows.test)
    members = {str(domain): rows.test_domains == domain for domain in np.unique(rows.test_domains)}
    scores = {
        name: {domain: float(score(rows.test_targets[here], predictions[here])) for domain, here in members.items()}
        for name, score in SCORES[regression].items()
    }
    return {"scores": scores, "seconds": round(seconds, 3)}
