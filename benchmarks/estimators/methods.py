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
SEARCHES: dict[bool, Any] = {False: MomentAlignedClassifierCV, True: MomentAlignedRegressorCV}
TUNED = {False: "LogisticRegressionCV", True: "RidgeCV"}
"""scikit-learn's own search, against which times are given."""

VARIANTS: dict[bool, dict[str, dict[str, Any]]] = {
    False: {
        "no alignment: L2, domains alike": {"gradient_weights": ()},
        "gradient weight 10 as well": {"gradient_weights": (1.0, 10.0)},
        "Hessian weights 1, 10 as well": {"hessian_weights": (1.0, 10.0)},
        "L2 0.001/n and 1000/n as well": {"l2_factors": (0.001, 0.01, 0.1, 10.0, 100.0, 1000.0)},
        "by accuracy": {"scoring": "accuracy"},
        "by log loss": {"scoring": "neg_log_loss"},
        "largest mean gain": {"rule": "best"},
    },
    True: {
        "no alignment: L2, domains alike, intercepts": {"gradient_weights": ()},
        "no intercepts of domains": {"domain_intercepts": False},
        "gradient weight 10 as well": {"gradient_weights": (1.0, 10.0)},
        "L2 0.001/n and 1000/n as well": {"l2_factors": (0.001, 0.01, 0.1, 10.0, 100.0, 1000.0)},
        "by R²": {"scoring": "r2"},
        "largest mean gain": {"rule": "best"},
    },
}
"""Other settings of the searches, compared on the sets that settle the rule."""

MethodResult = dict[str, Any]


class CellRows(NamedTuple):
    """A cell's rows after preprocessing."""

    train: NDArray[np.float64]
    train_targets: NDArray[Any]
    train_domains: NDArray[np.str_]
    test: NDArray[np.float64]
    test_targets: NDArray[Any]
    test_domains: NDArray[np.str_]


def all_methods(rows: CellRows, *, regression: bool, variants: bool = False) -> dict[str, MethodResult]:
    """Result of every method: score of each domain, CPU seconds of the fit, what it chose.

    All have their defaults; with `variants` those of `VARIANTS` follow.
    """
    search = SEARCHES[regression]
    models = {name: estimator() for name, estimator in BASELINES[regression].items()} | {search.__name__: search()}
    if variants:
        models |= {name: search(**options) for name, options in VARIANTS[regression].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about defaults that scikit-learn will change
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true")
        return {name: _fit_and_score(model, rows, regression=regression) for name, model in models.items()}


def describe_choice(search: MomentAlignedClassifierCV | MomentAlignedRegressorCV) -> str:
    """Setting that a search chose, such as `10/n, gradient 1`."""
    weights = {"gradient": search.gradient_weight_, "Hessian": getattr(search, "hessian_weight_", 0.0)}
    parts = [f"{search.l2_factor_:g}/n", *(f"{order} {weight:g}" for order, weight in weights.items() if weight)]
    if search.balanced_ and not search.aligned_:
        parts.append("domains alike")
    if getattr(search, "domain_intercepts_", False):
        parts.append("intercepts")
    return ", ".join(parts)


def _fit_and_score(model: Any, rows: CellRows, *, regression: bool) -> MethodResult:
    is_search = isinstance(model, SEARCHES[regression])
    options = {"domains": rows.train_domains} if is_search else {}
    start = time.process_time()
    model.fit(rows.train, rows.train_targets, **options)
    seconds = time.process_time() - start
    predictions = model.predict(rows.test)
    members = {str(domain): rows.test_domains == domain for domain in np.unique(rows.test_domains)}
    scores = {
        name: {domain: float(score(rows.test_targets[here], predictions[here])) for domain, here in members.items()}
        for name, score in SCORES[regression].items()
    }
    result = {"scores": scores, "seconds": round(seconds, 3)}
    if not is_search:
        return result
    changed = model.balanced_ or model.l2_factor_ != 1 or getattr(model, "domain_intercepts_", False)
    return result | {"chosen": describe_choice(model), "stepped": bool(changed), "reason": model.reason_}
