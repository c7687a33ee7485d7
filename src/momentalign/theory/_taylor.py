r"""Taylor bounds: transfer measures over a ball from derivatives at its centre.

With :math:`\delta^{1/2}` the radius, for every pair of source i and target j

.. math:: T(\mu_i\|\mu_j) \le (L_j - L_j^*) - (L_i - L_i^*) + \sum_{r=1}^N \frac{\delta^{r/2}}{r!}
          \|\nabla^r L_j - \nabla^r L_i\|_F + o(\delta^{N/2})

at the centre, N at most 4 for cross-entropy and any number for the other losses. The norms come from the domain Grams,
:math:`\|D_i - D_j\|^2 = M_{ii} + M_{jj} - 2M_{ij}`; no tensor is built, and the L2 terms cancel.
"""

from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from momentalign._batch import check_order
from momentalign._types import Array
from momentalign._validation import check_choice
from momentalign.theory._losses import DomainLosses, check_positive
from momentalign.theory._transfer import largest_pair

FORMS = ("full", "g", "irm")


@dataclass(frozen=True, eq=False)
class TaylorBound:
    """A bound of one order and form.

    Attributes:
        order: N, the highest derivative in it.
        form: `"full"`, `"g"` or `"irm"`.
        pairs: Bound on T(i‖j) for every pair up to the remainder, source in rows; zero on the diagonal.
        remainder: Upper bound on the o() term for every pair: with it added the bound holds for any radius.
    """

    order: int
    form: str
    pairs: Array
    remainder: Array

    def mixture(self, gap: float, *, remainder: bool = False) -> float:
        """(K−1)/K max over i ≠ j + gap: the bound for the balanced mixture of the sources.

        Args:
            gap: L_S* − mean_e L_e*, as in :class:`ManySourceBounds`; zero if one head is optimal for every domain.
            remainder: Whether to add the remainder.
        """
        number = len(self.pairs)
        return (number - 1) / number * self._largest(remainder) + gap

    def midpoint(self, *, remainder: bool = False) -> float:
        """½ max over i ≠ j: the bound for the midpoint of the gaps, which is no distribution.

        Args:
            remainder: Whether to add the remainder.
        """
        return self._largest(remainder) / 2

    def _largest(self, remainder: bool) -> float:
        total = self.pairs + self.remainder if remainder else self.pairs
        return float(total[largest_pair(total)])


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


def taylor_bound(
    losses: DomainLosses,
    center: Any,
    radius: float,
    minima: Any,
    *,
    order: int = 3,
    form: str = "full",
    distances: dict[int, Array] | None = None,
) -> TaylorBound:
    r"""Bound the transfer measures by derivatives at the centre of the ball.

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
        order: N, 1 to 4 for cross-entropy, any for the other losses. A term of a high order is small only if the
            radius times the rows' norms is: the expansion of the logistic loss converges below π.
        form: `"full"`, `"g"` or `"irm"`.
        distances: Distances of the derivatives by order if known; computed otherwise.

    Example:
        >>> X, domains = np.array([[1.0], [2.0]]), ["a", "b"]
        >>> losses = DomainLosses(X, [0.0, 0.0], domains, loss="squared_error", bias=False)
        >>> taylor_bound(losses, [[0.0]], 1.0, minima=[0.0, 0.0], order=2).pairs
        array([[0. , 1.5],
               [1.5, 0. ]])
    """
    radius = check_positive("radius", radius)
    check_order(order, losses.loss)
    check_choice("form", form, FORMS)
    theta = losses.as_head(center)
    gaps = losses.values(theta) - np.asarray(minima, dtype=np.float64)
    pairs = np.zeros((len(losses), len(losses)))
    if form != "irm":
        pairs = gaps[None, :] - gaps[:, None]
    for r in range(2 if form == "irm" else 1, order + 1):
        if form == "g" and r == 1:
            term: Any = 2 * float(losses.gradients(theta).flatten(1).norm(dim=1).max())
        else:
            term = losses.derivative_norms(r, theta) if distances is None else distances[r]
        pairs = pairs + radius**r / factorial(r) * term
    np.fill_diagonal(pairs, 0.0)
    return TaylorBound(order, form, pairs, _remainders(losses, radius, order))


def _remainders(losses: DomainLosses, radius: float, order: int) -> Array:
    """Largest size of what the expansion leaves out, for each pair."""
    following = order + 1
    number = len(losses)
    if losses.loss == "squared_error" and following > 2:
        return np.zeros((number, number))
    widths = {"cross_entropy": 2**0.5, "logistic": 1.0, "squared_error": 2.0}  # the last makes w²/4 = ‖x‖²
    lengths = widths[losses.loss] * losses.inputs.norm(dim=1)
    largest: Array = (losses.weights.T @ lengths**following).numpy() * largest_cumulant(following)
    # Second derivatives are not negative, so their difference is at most the larger; others may have opposite signs.
    both = np.maximum.outer(largest, largest) if following == 2 else np.add.outer(largest, largest)
    remainder: Array = radius**following / factorial(following) * both
    np.fill_diagonal(remainder, 0.0)
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
