"""Names of the measures of rows in groups, and the confidence interval of a worst group's accuracy."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from momentalign._types import Array
from momentalign._validation import check_number

GROUP_MEASURES = {
    "worst_group_accuracy": "worst group",
    "accuracy": "average",
    "weighted_accuracy": "weighted average",
    "balanced_accuracy": "balanced accuracy",
    "worst_class_accuracy": "worst class",
    "worst_group_f1": "worst-group F1",
    "auroc": "AUROC",
    "calibration_error": "calibration error",
}
"""Label of each measure by its name in records."""


def worst_group_interval(hits: ArrayLike, rows: ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    r"""Confidence interval of the worst group's accuracy, corrected for taking a minimum.

    The least of several observed accuracies is lower on average than the accuracy of the worst group, the more so the
    more groups are close to it. The bootstrap (resample the rows within each group and take the minimum each time)
    repeats this error instead of correcting it: with 8 groups alike, its 95% percentile interval contains the true
    minimum in some 10% of cases, its bias-corrected form in 50%, its basic form in 40 to 98%. This is the interval for
    a minimum of Chernozhukov, Lee and Rosen (Intersection bounds, Econometrica 2013) instead, with the groups'
    bootstrap distributions in closed form: resampled accuracies, smoothed by half a hit and half a miss, follow
    :math:`\mathrm{Beta}(h_g + \tfrac12, n_g - h_g + \tfrac12)`, and groups have no rows in common. There is no seed.

    - The lower end is the least of the groups' :math:`\alpha/2` quantiles. It needs no correction: it is too high only
      if that of the true worst group is.
    - The upper end is the least of the groups' :math:`(1 - \alpha/2)^{1/k}` quantiles, where *k* counts the groups that
      may be the worst: those whose simultaneous interval at level :math:`1 - \alpha/10` reaches below the least upper
      end. This is the correction of the downward bias.

    The rows are a sample of their groups and the predictor is fixed: another training seed is not covered.

    Args:
        hits: Number of rows predicted correctly in each group, shape (G,).
        rows: Number of rows of each group, shape (G,); groups without rows are left out.
        confidence: Share of intervals that contain the true minimum, at least.

    Returns:
        The lower and the upper end, 0 … 1.

    Raises:
        ValueError: No rows at all, or more hits than rows.

    Example:
        >>> low, high = worst_group_interval([90, 60, 61], [100, 100, 100])
        >>> print(f"{low:.3f} {high:.3f}")
        0.502 0.704
    """
    right, sizes = _counts(hits, rows)
    if not 0 < check_number("confidence", confidence) < 1:
        raise ValueError(f"'confidence' should lie between 0 and 1, but is {confidence!r}. The usual one is 0.95.")
    alpha = 1 - confidence
    joint = (1 - alpha / 10) ** (1 / len(sizes))
    contenders = _quantiles(right, sizes, 1 - joint) <= _quantiles(right, sizes, joint).min()
    level = (1 - alpha / 2) ** (1 / int(contenders.sum()))
    low = _quantiles(right, sizes, alpha / 2).min()
    high = _quantiles(right[contenders], sizes[contenders], level).min()
    return float(low), float(high)


def _counts(hits: ArrayLike, rows: ArrayLike) -> tuple[Array, Array]:
    right, sizes = np.asarray(hits, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    if right.ndim != 1 or right.shape != sizes.shape:
        raise ValueError(f"'hits' and 'rows' should be two columns, but have shapes {right.shape} and {sizes.shape}.")
    if not (sizes > 0).any():
        raise ValueError("'rows' should be above 0 for at least one group, but there are no rows.")
    if (right < 0).any() or (right > sizes).any():
        raise ValueError("'hits' should lie between 0 and the number of rows of each group, but do not.")
    return right[sizes > 0], sizes[sizes > 0]


def _quantiles(hits: Array, rows: Array, level: float) -> Any:
    """Quantile of each group's accuracy, shape (G,); 0 and 1 themselves where no row or every row is a hit."""
    values = betaincinv(hits + 0.5, rows - hits + 0.5, level)
    return np.where((hits == 0) & (level < 0.5), 0.0, np.where((hits == rows) & (level > 0.5), 1.0, values))
