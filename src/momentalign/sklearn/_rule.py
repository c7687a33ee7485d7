"""Rules of the search: which step away from a model its scores on left-out rows justify."""

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array

POINT = 0.01
"""Most that a step may lose on a fold of domains, in the fold's unit."""

LEAST_GAIN = POINT / 10
"""Mean gain below which a step is not worth another model."""

LEAST_FOLDS = 3
"""Folds of domains without which no step is taken: with two, each is fitted on one domain alone."""


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
    gains = ((scores - scores[0]) / units)[:, scored]
    folds = gains.shape[1]
    if folds < LEAST_FOLDS:
        return _step(np.full(len(scores), np.nan), np.full(len(scores), np.nan), [Verdict.UNCERTAIN] * len(scores))
    mean = gains.mean(1)
    with np.errstate(over="ignore"):  # gains over a fit without an error
        errors: Array = gains.std(1, ddof=1) / np.sqrt(folds)
    outcomes, loses = [], Verdict.LOSES_OFTEN if tolerated else Verdict.LOSES
    for candidate, lost in enumerate(lose_too_often(scores[:, scored], units[scored], tolerated)):
        dropped = lost or not np.isfinite(mean[candidate])
        if not cautious:
            outcomes.append(Verdict.SMALLER)
        elif dropped:
            outcomes.append(loses)
        elif mean[candidate] <= errors[candidate]:
            outcomes.append(Verdict.UNCERTAIN)
        else:
            outcomes.append(Verdict.SMALLER if mean[candidate] >= LEAST_GAIN else Verdict.LITTLE)
    return _step(mean, errors, outcomes)


def _step(gains: Array, errors: Array, outcomes: list[Verdict]) -> Choice:
    """The largest gain above 0 among the candidates that may be taken."""
    outcomes[0] = Verdict.REFERENCE
    ranked = np.array(
        [gain if outcome is Verdict.SMALLER else 0.0 for gain, outcome in zip(gains, outcomes, strict=True)]
    )
    candidate = int((ranked > ranked.max() - 1e-12).argmax())
    if candidate:
        outcomes[candidate] = Verdict.CHOSEN
    return Choice(candidate, gains, errors, outcomes)
