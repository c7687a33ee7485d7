"""Rules of the search: which step away from a model its scores on left-out rows justify."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import check_scoring, log_loss, make_scorer

from momentalign._types import Array

POINT = 0.01
"""Most that a step may lose on a fold of domains, in the fold's unit."""

LEAST_GAIN = POINT / 10
"""Mean gain below which a step is not worth another model."""

LEAST_FOLDS = 3
"""Folds of domains without which no step is taken: with two, each is fitted on one domain alone."""

Scorer = Callable[[Any, Any, Any], float]
"""Called with a fitted estimator, features and targets."""


class Verdict(StrEnum):
    """What became of a candidate."""

    REFERENCE = "reference"
    CHOSEN = "chosen"
    LOSES = "loses more than a point on a left-out fold"
    LOSES_OFTEN = "loses more than a point on too many left-out folds"
    UNCERTAIN = "gains no more than a standard error"
    LITTLE = "gains less than a tenth of a point"
    SMALLER = "gains less than the chosen one"


class Choice(NamedTuple):
    """The chosen candidate, 0 for none, with mean gains over candidate 0, their standard errors, and outcomes (m,)."""

    candidate: int
    gains: Array
    errors: Array
    outcomes: list[Verdict]


def lose_too_often(scores: Array, units: Array, tolerated: int) -> NDArray[np.bool_]:
    """Whether each candidate loses more than a point on more folds than are `tolerated`, shape (m,)."""
    lost: NDArray[np.bool_] = ((scores - scores[0]) / units < -POINT * (1.0 + 1e-9)).sum(1) > tolerated
    return lost


def choose_step(scores: Array, units: Array, *, tolerated: int = 0, cautious: bool = True) -> Choice:
    """Choose the candidate with the largest mean gain over candidate 0; ties go to the earlier one.

    A step needs evidence: a mean gain over more than one standard error and of a tenth of a point at least, and no
    fold, or no more than are tolerated, on which it loses more than a point. Scores of fewer than three folds are no
    evidence.

    Args:
        scores: Score of each candidate on each left-out fold of domains, larger is better, shape (m, F). NaN columns
            are folds that have no score; other NaNs are of candidates that :func:`lose_too_often` has dropped.
        units: Unit of gains on each fold, shape (F,): 1, or the reference's error where scores are errors.
        tolerated: Number of folds that may lose more than a point.
        cautious: False takes the largest mean gain, whatever the evidence.
    """
    scored = np.isfinite(scores[0])
    scores, units = scores[:, scored], units[scored]
    gains = errors = np.full(len(scores), np.nan)
    outcomes = [Verdict.UNCERTAIN] * len(scores)
    if scored.sum() >= LEAST_FOLDS:
        changes = (scores - scores[0]) / units
        gains = changes.mean(1)
        with np.errstate(over="ignore"):  # gains over a fit without an error
            errors = changes.std(1, ddof=1) / np.sqrt(len(units))
        lost = lose_too_often(scores, units, tolerated) | ~np.isfinite(gains)
        reasons = np.select([lost, gains <= errors, gains < LEAST_GAIN], [1, 2, 3], 0) * cautious
        loses = Verdict.LOSES_OFTEN if tolerated else Verdict.LOSES
        outcomes = [(Verdict.SMALLER, loses, Verdict.UNCERTAIN, Verdict.LITTLE)[reason] for reason in reasons]
    outcomes[0] = Verdict.REFERENCE
    ranked = np.where([outcome is Verdict.SMALLER for outcome in outcomes], gains, 0.0)
    candidate = int((ranked > ranked.max() - 1e-12).argmax())
    if candidate:
        outcomes[candidate] = Verdict.CHOSEN
    return Choice(candidate, gains, errors, outcomes)


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
    units: Array = np.maximum(np.abs(reference), np.finfo(np.float64).tiny)
    return units if is_error(scorer) else np.ones_like(reference)
