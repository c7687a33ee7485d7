"""The score that a search decides by, and the unit of its gains."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring, log_loss, make_scorer

from momentalign._types import Array

Scorer = Callable[[Any, Any, Any], float]
"""Called with a fitted estimator, features and targets."""


def find_scorer(estimator: Any, scoring: str | Scorer) -> Scorer:
    """The scorer of a name that scikit-learn knows, or the scorer itself."""
    if scoring == "neg_log_loss":  # classes that the left-out rows do not have are counted as well
        options = {"labels": getattr(estimator, "classes_", None), "response_method": "predict_proba"}
        likelihood: Scorer = make_scorer(log_loss, greater_is_better=False, **options)
        return likelihood
    scorer: Scorer = check_scoring(estimator, scoring=scoring)
    return scorer


def is_error(scorer: Scorer) -> bool:
    """Whether scores are errors or losses with their sign reversed."""
    return getattr(scorer, "_sign", 1) < 0


def gain_units(scorer: Scorer, reference: Array) -> Array:
    """Unit of gains on each fold (F,): 1, or the reference's error where scores are errors."""
    if not is_error(scorer):
        return np.ones_like(reference)
    units: Array = np.maximum(np.abs(reference), np.finfo(np.float64).tiny)
    return units
