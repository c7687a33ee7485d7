"""Scores of one run's records, for tables and for training alike. NumPy only."""

import numpy as np

from momentalign._types import Array, Integers
from momentalign._validation import check_choice, check_weight
from momentalign.runs import RunConfig

RECORD_RULES = ("training-domain", "extrapolated")
"""Rules that read nothing but the held-out rows of a run's own training domains."""

REACH = RunConfig.reach
"""How far outside the hull of the training domains the new domain may lie, by default."""

_NOISE = 2.0
"""Standard errors by which two domains differ before the difference counts."""
_WARM_UP = 0.02
"""Share of a run's steps without a choice under "extrapolated": an untrained network is equally bad everywhere."""


def record_scores(
    rule: str,
    accuracies: Array,
    rows: Integers | Array | None,
    steps: Integers,
    *,
    total_steps: int,
    reach: float = REACH,
) -> Array:
    r"""Score the records of a run by the held-out rows of its training domains; the largest score is the best.

    "training-domain" is the mean accuracy. "extrapolated" is

    .. math:: a_{\min} - \text{reach} \cdot \max(0, a_{\max} - a_{\min} - 2 \cdot \text{se}),

    se being the binomial standard error of the difference between the best and the worst domain. It is defined from 2%
    of the steps on, and never at step 0. For one training domain both are its accuracy.

    Args:
        rule: "training-domain" or "extrapolated".
        accuracies: On the training domains' held-out rows, 0 to 1, shape (s, K); NaN where a record lacks one.
        rows: Numbers of these rows, shape (K,), or None if they are not known: se is 0 then.
        steps: Steps of the records, shape (s,).
        total_steps: Number of steps of the whole run.
        reach: How far outside the training domains' convex hull the new domain may lie, in multiples of their
            difference; used by "extrapolated" only.

    Returns:
        Shape (s,); NaN for records that may not be chosen.

    Raises:
        ValueError: If there is no such rule, or `reach` is negative or not finite.

    Example:
        >>> colour, shape = [0.9, 0.8], [0.73, 0.72]
        >>> accuracies, steps = np.array([colour, shape]), np.array([500, 1000])
        >>> record_scores("training-domain", accuracies, None, steps, total_steps=1001)
        array([0.85 , 0.725])
        >>> record_scores("extrapolated", accuracies, np.array([5000, 5000]), steps, total_steps=1001).round(3)
        array([0.628, 0.72 ])
    """
    reach = check_weight("reach", reach)
    if check_choice("rule", rule, RECORD_RULES) == "training-domain":
        return np.asarray(np.ascontiguousarray(accuracies).mean(axis=1))
    worst, best = accuracies.min(axis=1), accuracies.max(axis=1)
    gap = best - worst
    if rows is not None:
        variances = accuracies * (1 - accuracies) / rows
        gap = gap - _NOISE * np.sqrt(sum(_variance_at(end, accuracies, variances) for end in (worst, best)))
    usable = (steps > 0) & (steps >= int(_WARM_UP * total_steps))
    return np.where(usable, worst - reach * np.maximum(gap, 0), np.nan)


def best_record(scores: Array) -> int | None:
    """Index of the largest score, the first on ties; None if no record may be chosen."""
    return None if np.isnan(scores).all() else int(np.nanargmax(scores))


def _variance_at(end: Array, accuracies: Array, variances: Array) -> Array:
    """Variance of the domain with this accuracy; the largest on ties, so that the order of domains does not matter."""
    return np.asarray(np.where(accuracies == end[:, None], variances, 0).max(axis=1))
