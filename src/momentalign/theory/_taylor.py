r"""Taylor bounds: transfer measures over a ball from derivatives at its centre.

With :math:`\delta^{1/2}` the radius, for every pair of source i and target j

.. math:: T(\mu_i\|\mu_j) \le (L_j - L_j^*) - (L_i - L_i^*) + \sum_{r=1}^N \frac{\delta^{r/2}}{r!}
          \|\nabla^r L_j - \nabla^r L_i\|_F + o(\delta^{N/2})

at the centre. The norms come from the domain Grams, :math:`\|D_i - D_j\|^2 = M_{ii} + M_{jj} - 2M_{ij}`; no tensor is
built, and the L2 terms cancel.
"""

from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from momentalign._types import Array
from momentalign._validation import check_choice
from momentalign.theory._inputs import check_radius
from momentalign.theory._losses import DomainLosses
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

    @property
    def center(self) -> float:
        """½ max over i ≠ j: the paper's bound for many sources, up to the remainder."""
        return float(self.pairs[largest_pair(self.pairs)]) / 2

    @property
    def center_with_remainder(self) -> float:
        """½ max over i ≠ j, remainder included."""
        total = self.pairs + self.remainder
        return float(total[largest_pair(total)]) / 2


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
    norm at the centre, L2 term included. `"irm"` leaves out the optimality gaps and r = 1, both of which vanish if
    the centre is optimal for every domain at once; it is a bound only then.

    The remainder is not in the paper. Along a line the derivative of order r of a sample's loss is a cumulant of a
    variable whose range is at most √2‖x‖ (cross-entropy) or ‖x‖ (logistic) times the step; cumulants of a variable of
    range w are at most w²/4, w³/(6√3) and w⁴/8 in size. Squared error has no remainder past the second order.

    Args:
        center: Head at the centre of the ball, shape (C, D).
        radius: √δ, above zero.
        minima: L_e*, shape (K,), as in :class:`TransferMeasures`.
        order: N, 1 to 3.
        form: `"full"`, `"g"` or `"irm"`.
        distances: Distances of the derivatives by order if known; computed otherwise.

    Example:
        >>> X, domains = np.array([[1.0], [2.0]]), ["a", "b"]
        >>> losses = DomainLosses(X, [0.0, 0.0], domains, loss="squared_error", bias=False)
        >>> taylor_bound(losses, [[0.0]], 1.0, minima=[0.0, 0.0], order=2).pairs
        array([[0. , 1.5],
               [1.5, 0. ]])
    """
    radius = check_radius(radius)
    check_taylor_order(order)
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


def check_taylor_order(order: object) -> int:
    """Return `order` if it is 1, 2 or 3."""
    if isinstance(order, bool) or not isinstance(order, int):
        raise TypeError(f"'order' should be an integer, but is {order!r}.")
    if order not in (1, 2, 3):
        raise ValueError(f"'order' should be 1, 2 or 3, but is {order}. Higher derivatives have no closed form here.")
    return order


def _remainders(losses: DomainLosses, radius: float, order: int) -> Array:
    """Largest size of what the expansion leaves out, for each pair."""
    following = order + 1
    number = len(losses)
    if losses.loss == "squared_error" and following > 2:
        return np.zeros((number, number))
    widths = {"cross_entropy": 2**0.5, "logistic": 1.0, "squared_error": 2.0}  # the last makes w²/4 = ‖x‖²
    cumulants = {2: 1 / 4, 3: 1 / (6 * 3**0.5), 4: 1 / 8}
    lengths = widths[losses.loss] * losses.inputs.norm(dim=1)
    largest: Array = (losses.weights.T @ lengths**following).numpy() * cumulants[following]
    # Second derivatives are not negative, so their difference is at most the larger; others may have opposite signs.
    both = np.maximum.outer(largest, largest) if following == 2 else np.add.outer(largest, largest)
    remainder: Array = radius**following / factorial(following) * both
    np.fill_diagonal(remainder, 0.0)
    return remainder
