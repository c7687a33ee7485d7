"""Rules of the search: which step away from a model its scores on left-out rows justify."""

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array

POINT = 0.01
"""Most that a step may lose on a fold of domains, in the fold's unit."""

LEAST_FOLDS = 3
"""Folds of domains without which no step is taken: with two, each is fitted on one domain alone."""


class Verdict(StrEnum):
    """What became of a candidate."""

    REFERENCE = "reference"
    CHOSEN = "chosen"
    LOSES = "loses more than a point on a left-out fold"
    UNCERTAIN = "gains no more than a standard error"
    SMALLER = "gains less than the chosen one"
    UNFIT = "cannot be fitted without some fold: a group has too few rows"


class Gain(NamedTuple):
    """A mean gain over the folds and its standard error."""

    mean: float
    error: float


class Choice(NamedTuple):
    """The chosen candidate, 0 for none, with mean gains over candidate 0, their standard errors, and outcomes (m,).

    `saved` is the share of the loss that the chosen candidate saves, where that is the evidence for it.
    """

    candidate: int
    gains: Array
    errors: Array
    outcomes: list[Verdict]
    saved: Gain | None = None


def lose_a_point(scores: Array, units: Array) -> NDArray[np.bool_]:
    """Whether each candidate loses more than a point on one of the folds, shape (m,); see :func:`choose_step`."""
    lost: NDArray[np.bool_] = ((scores - scores[0]) / units < -POINT * (1.0 + 1e-9)).any(1)
    return lost


def choose_step(scores: Array, units: Array, losses: Array | None = None, *, cautious: bool = True) -> Choice:
    """Choose the candidate with the largest mean gain over candidate 0; ties go to the earlier one.

    A step needs evidence: a mean gain over more than one standard error, and no fold on which it loses more than a
    point. Where there are losses, these may give it instead of the scores, which then only have to gain in the mean:
    on few rows a loss is less noisy than a count of errors. Scores of fewer than three folds are no evidence.

    Args:
        scores: Score of each candidate on each left-out fold of domains, larger is better, shape (m, F). NaN columns
            are folds that have no score; other NaNs are of candidates that :func:`lose_a_point` has dropped.
        units: Unit of gains on each fold, shape (F,): 1, or the reference's error where scores are errors.
        losses: Loss of each candidate on each fold, smaller is better, shape (m, F); a point is 1% of candidate 0's.
        cautious: False takes the largest mean gain, whatever the evidence.
    """
    scored = np.isfinite(scores[0])
    if scored.sum() < LEAST_FOLDS:
        return _step(np.full(len(scores), np.nan), np.full(len(scores), np.nan), [Verdict.UNCERTAIN] * len(scores))
    lost = lose_a_point(scores[:, scored], units[scored])
    mean, errors = _mean_gains(((scores - scores[0]) / units)[:, scored])
    evident = (mean > errors) & ~lost
    by_loss = np.zeros_like(evident)
    if losses is not None:
        loss_units = np.maximum(losses[0], 1e-12)[scored]
        saved, saved_errors = _mean_gains((losses[0] - losses)[:, scored] / loss_units)
        by_loss = (saved > saved_errors) & ~lose_a_point(-losses[:, scored], loss_units) & (mean > 0) & ~evident
    outcomes = []
    for candidate in range(len(scores)):
        dropped = lost[candidate] or not np.isfinite(mean[candidate])
        if evident[candidate] or by_loss[candidate] or not cautious:
            outcomes.append(Verdict.SMALLER)
        else:
            outcomes.append(Verdict.LOSES if dropped else Verdict.UNCERTAIN)
    choice = _step(mean, errors, outcomes)
    chosen = choice.candidate
    if cautious and by_loss[chosen]:
        return choice._replace(saved=Gain(float(saved[chosen]), float(saved_errors[chosen])))
    return choice


def _mean_gains(gains: Array) -> tuple[Array, Array]:
    """Mean of gains (m, F) over the folds, and its standard error, each of shape (m,)."""
    with np.errstate(over="ignore"):  # gains over a fit without an error
        return gains.mean(1), gains.std(1, ddof=1) / np.sqrt(gains.shape[1])


def choose_for_worst(scores: Array, groups: NDArray[np.int64], *, cautious: bool = True) -> Choice:
    """Choose the candidate whose worst group scores highest; a step's gain has to exceed its standard error.

    Args:
        scores: Score of each row under each candidate, larger is better, shape (m, n); NaN where a candidate could not
            be fitted.
        groups: Group of each row, any integers, shape (n,).
        cautious: False takes the highest score, whatever the evidence.
    """
    members = [groups == group for group in np.unique(groups)]
    each = np.stack([scores[:, rows].mean(1) for rows in members])
    noise = np.sqrt([(scores - scores[0])[:, rows].var(1) / rows.sum() for rows in members])
    gains = each.min(0) - each[:, 0].min()
    errors: Array = noise[each.argmin(0), np.arange(len(scores))]
    outcomes = []
    for gain, error in zip(gains, errors, strict=True):
        certain = gain > error or not cautious
        outcomes.append(Verdict.UNFIT if np.isnan(gain) else Verdict.SMALLER if certain else Verdict.UNCERTAIN)
    return _step(gains, errors, outcomes)


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
