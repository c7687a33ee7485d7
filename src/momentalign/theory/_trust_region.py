r"""The largest value of a quadratic function on a ball, in closed form but for one root.

At the maximum of :math:`\frac12\langle x, Ax\rangle + \langle b, x\rangle` over :math:`\|x\| \le R` there is a
:math:`\mu \ge 0` with :math:`\mu I - A` positive semi-definite and :math:`(\mu I - A)x = b`; where :math:`\mu > 0` the
point lies on the sphere. In the eigenbasis of A the length of x decreases in μ beyond the largest eigenvalue.
"""

import numpy as np
from scipy.optimize import brentq

from momentalign.theory._inputs import Floats


def largest_quadratic(eigenvalues: Floats, linear: Floats, radius: float) -> float:
    """Largest value on the ball, given in the eigenbasis.

    Args:
        eigenvalues: Of A, one a coordinate, in any order and with repetitions, shape (m,).
        linear: b in the eigenbasis, shape (m,).
        radius: Of the ball around 0.

    Returns:
        The largest value, at least 0.

    Example:
        >>> largest_quadratic(np.array([1.0, -1.0]), np.zeros(2), 2.0)
        2.0
        >>> largest_quadratic(np.array([-1.0]), np.array([1.0]), 2.0)
        0.5
    """
    least = max(float(eigenvalues.max()), 0.0)
    # Distances from the smallest μ allowed, not μ itself: next to the hard case μ − λ keeps all its digits.
    gaps = least - eigenvalues
    size = float(np.linalg.norm(linear))
    active = linear != 0

    def point(above: float) -> Floats:
        x = np.zeros_like(linear)
        with np.errstate(over="ignore", divide="ignore"):
            x[active] = linear[active] / (above + gaps[active])
        return x

    def value(x: Floats) -> float:
        return float(0.5 * eigenvalues @ x**2 + linear @ x)

    def excess(above: float) -> float:
        with np.errstate(over="ignore"):
            length = np.linalg.norm(point(above))
        return float(1 / radius - (1 / length if length > 0 else np.inf))

    if size == 0 or excess(0.0) <= 0:
        # Inside, or the hard case: what length is left goes along the top eigenvector, whichever its sign.
        x = point(0.0)
        return value(x) + 0.5 * least * max(radius**2 - float(x @ x), 0.0)
    upper = size / radius
    while excess(upper) > 0:
        upper *= 2
    x = point(brentq(excess, 0.0, upper, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=2000))
    return value(x * (radius / np.linalg.norm(x)))
