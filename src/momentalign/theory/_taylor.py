r"""Taylor bounds: transfer measures over a ball from derivatives at its centre.

With :math:`\delta^{1/2}` the radius, for every pair of source i and target j

.. math:: T(\mu_i\|\mu_j) \le (L_j - L_j^*) - (L_i - L_i^*) + \sum_{r=1}^N \frac{\delta^{r/2}}{r!}
          \|\nabla^r L_j - \nabla^r L_i\|_F + o(\delta^{N/2})

at the centre, N at most 3 for cross-entropy and any number for the other losses. The norms come from the domain Grams,
:math:`\|D_i - D_j\|^2 = M_{ii} + M_{jj} - 2M_{ij}`; no tensor is built, and the L2 terms cancel.
"""

from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from momentalign._types import Array
from momentalign.theory._losses import DomainLosses, check_positive
from momentalign.theory._transfer import largest_entry


@dataclass(frozen=True, eq=False)
class TaylorBound:
    """A bound of one order and form.

    Attributes:
        pairs: Bound on T(i‖j) for every pair up to the remainder, source in rows; zero on the diagonal.
        remainder: Upper bound on the o() term for every pair: with it added the bound holds for any radius.
    """

    pairs: Array
    remainder: Array

    def mixture(self, gap: float, *, remainder: bool = False) -> float:
        """(K−1)/K max over i ≠ j + gap: the bound for the balanced mixture of the sources.

        Args:
            gap: L_S* − mean_e L_e*, as in :class:`ManySourceBounds`; zero if one head is optimal for every domain.
            remainder: Whether to add the remainder.
        """
        number = len(self.pairs)
        return (number - 1) / number * largest_entry(self.pairs + remainder * self.remainder) + gap


def ball_radius(excess_loss: Any, l2: Any) -> float:
    r"""Radius :math:`\sqrt\delta = \sqrt{2\delta_S/\nu}` of a ball around :math:`\theta^*`.

    The ball holds every head :math:`\theta` with :math:`\max_e [L_e(\theta) - L_e(\theta^*)] \le \delta_S`, if the
    losses are strongly convex with modulus :math:`\nu` and :math:`\theta^*` is weakly Pareto optimal, as that of
    :func:`pareto_point` is: in no direction do all losses fall to first order.

    Args:
        excess_loss: δ_S, what a head may lose at most on any domain relative to θ*.
        l2: ν, the weight of half the squared norm in every loss, bias included.

    Example:
        >>> round(ball_radius(excess_loss=0.02, l2=0.01), 6)
        2.0
    """
    return float((2 * check_positive("excess_loss", excess_loss) / check_positive("l2", l2)) ** 0.5)


def taylor_bounds(
    losses: DomainLosses, center: Any, radius: float, minima: Any, norms: dict[int, Array]
) -> dict[tuple[int, str], TaylorBound]:
    r"""Bounds on the transfer measures by derivatives at the centre of the ball, for every order and form.

    Form `"full"` is the sum above. `"g"` replaces its first term by :math:`2\sqrt\delta\,g`, g the largest gradient
    norm at the centre, L2 term included; the paper's g, a minimum over all heads, can be too small. `"irm"` leaves out
    the optimality gaps and r = 1, both of which vanish if the centre is optimal for every domain at once; it is a bound
    only then.

    The remainder is not in the paper. Along a line the derivative of order r of a sample's loss is a cumulant of a
    variable whose range is at most √2‖x‖ (cross-entropy) or ‖x‖ (logistic) times the step. Cumulants of a variable of
    range w are largest for two values: w²/4, w³/(6√3), w⁴/8, 0.128 w⁵, …. Squared error has no remainder past order 2.

    Args:
        center: Head at the centre of the ball, shape (C, D).
        radius: √δ, above zero.
        minima: L_e*, shape (K,), as in :class:`TransferMeasures`.
        norms: Distances of the derivatives there, by order: :meth:`DomainLosses.derivative_norms`. A term of a high
            order is small only if the radius times the rows' norms is: the expansion of the logistic loss converges
            below π.

    Returns:
        The bounds by order N and form.

    Example:
        >>> X, domains = np.array([[1.0], [2.0]]), ["a", "b"]
        >>> losses = DomainLosses(X, [0.0, 0.0], domains, loss="squared_error", bias=False)
        >>> norms = losses.derivative_norms([[0.0]], order=2)
        >>> taylor_bounds(losses, [[0.0]], 1.0, [0.0, 0.0], norms)[2, "full"].pairs
        array([[0. , 1.5],
               [1.5, 0. ]])
    """
    radius = check_positive("radius", radius)
    gaps = losses.values(center) - np.asarray(minima, dtype=np.float64)
    differences, off = gaps[None, :] - gaps[:, None], ~np.eye(len(gaps), dtype=bool)
    first: dict[str, Any] = {
        "full": norms[1],
        "g": 2 * float(losses.gradients(center).flatten(1).norm(dim=1).max()),
        "irm": 0.0,
    }
    totals = {"full": differences, "g": differences, "irm": 0.0 * differences}
    found = {}
    for r, norm in norms.items():
        remainder = _remainders(losses, radius, r + 1)
        for form, term in first.items():
            totals[form] = totals[form] + off * radius**r / factorial(r) * (term if r == 1 else norm)
            found[r, form] = TaylorBound(totals[form], remainder)
    return found


def _remainders(losses: DomainLosses, radius: float, order: int) -> Array:
    """Largest size of what an expansion leaves out that ends before `order`, for each pair."""
    if losses.loss == "squared_error" and order > 2:
        return np.zeros((len(losses), len(losses)))
    widths = {"cross_entropy": 2**0.5, "logistic": 1.0, "squared_error": 2.0}  # the last makes w²/4 = ‖x‖²
    powers = (widths[losses.loss] * losses.inputs.norm(dim=1)) ** order
    largest = np.array([powers[losses.domains == e].mean() for e in range(len(losses))]) * largest_cumulant(order)
    # Second derivatives are not negative, so their difference is at most the larger; others may have opposite signs.
    both = np.maximum.outer(largest, largest) if order == 2 else np.add.outer(largest, largest)
    np.fill_diagonal(both, 0.0)
    remainder: Array = radius**order / factorial(order) * both
    return remainder


def largest_cumulant(order: int) -> float:
    """Largest size of a cumulant of a variable of range one, from the second on.

    It is that of two values, max_p |Q_r(p)|. For r up to 4 that is classical. For r = 5, given mean and variance the
    cumulant is linear in the distribution, so that three values are enough, and over these the largest is that of two
    (found numerically). The logistic loss has two values at every order.
    """
    # In t = 2p − 1, where Q_{r+1} = Q_r' p(1 − p) becomes Q_{r+1} = Q_r' (1 − t²)/2.
    q = Polynomial([0.5, 0.5])
    for _ in range(order - 1):
        q = q.deriv() * Polynomial([0.5, 0.0, -0.5])
    extremes = q.deriv().roots()
    inside = extremes[(abs(extremes.imag) < 1e-6) & (abs(extremes.real) <= 1)].real
    return float(abs(q(inside)).max())
