"""The length of a head: alignment sets its direction, the loss says how long it should be.

Penalties shrink when a head grows: once most rows are classified with certainty, few residuals are left and their means
differ little beside their size. An aligned head is therefore too long for the loss, and its probabilities too sure.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax

from momentalign.linear._path import LinearHead
from momentalign.linear._rows import Array, Integers, Rows

_LEAST, _MOST = 1e-3, 1e3


def rescale(
    head: LinearHead,
    features: NDArray[np.floating],
    targets: Integers,
    domains: Integers | None = None,
    *,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float = 1e-3,
) -> tuple[LinearHead, float]:
    r"""Multiply a head by the number that minimises the objective without penalties.

    Of the head that minimises that objective itself the number is 1. Predicted classes do not change.

    Args:
        head: Fitted with the same rows.
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        domains: Where each row came from: any integers, shape (n,); None is one domain.
        sample_weight: Weight of each row in its domain's mean, shape (n,).
        l2: Weight of half the squared norm of the coefficients.

    Returns:
        The head with other coefficients and intercepts, and the number, between 0.001 and 1000.

    Example:
        >>> features, targets = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
        >>> head = LinearHead(np.array([[100.0]]), np.array([-150.0]), {}, 0.0, 0, True)
        >>> rescale(head, features, targets)[0].coef.round(2).item()
        0.9
    """
    rows = Rows.sort(features, targets, domains, sample_weight, bias=False)
    Z = rows.X @ head.coef.T + head.intercept
    if Z.shape[1] == 1:
        Z = np.hstack([np.zeros_like(Z), Z])
    shares, true = rows.shares / rows.number, Z[np.arange(len(Z)), rows.targets]
    curvature = l2 * float(np.vdot(head.coef, head.coef))

    def slope(scale: float) -> float:
        """Derivative of the objective by the scale, which grows with it."""
        means: Array = (softmax(scale * Z, axis=1) * Z).sum(1)
        return float(shares @ (means - true)) + curvature * scale

    scale = _MOST
    if slope(_LEAST) >= 0:
        scale = _LEAST  # a head that is worse than none
    elif slope(_MOST) > 0:
        scale = math.exp(brentq(lambda logarithm: slope(math.exp(logarithm)), math.log(_LEAST), math.log(_MOST)))
    return replace(head, coef=head.coef * scale, intercept=head.intercept * scale), scale
