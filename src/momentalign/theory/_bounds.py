"""Bounds on a target's error: from one source, and from many whose convex hull holds the target."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from momentalign.theory._inputs import Floats
from momentalign.theory._losses import DomainLosses
from momentalign.theory._newton import mixture_minimizer
from momentalign.theory._transfer import TransferMeasures, largest_pair


def target_error_bound(source_loss: Any, source_minimum: Any, target_minimum: Any, transfer: Any) -> Any:
    r"""Bound :math:`L_T(\theta) \le L_S(\theta) + L_T^* - L_S^* + T(S\|T)` for every head of the ball.

    Args:
        source_loss: L_S at the head.
        source_minimum: L_S*.
        target_minimum: L_T*.
        transfer: One-sided transfer measure T(S‖T) over a ball that holds the head.

    Returns:
        The bound; the arguments may be arrays that broadcast.

    Example:
        >>> target_error_bound(source_loss=0.5, source_minimum=0.25, target_minimum=0.5, transfer=0.125)
        0.875
    """
    return source_loss + target_minimum - source_minimum + transfer


def pairwise_error_bounds(losses: DomainLosses, head: Any, measures: TransferMeasures) -> Floats:
    """Bound on every domain's loss from every other's, at a head of the ball.

    Args:
        losses: The domains' losses.
        head: Shape (C, D), within the radius of the measures' centre.
        measures: Transfer measures of these losses.

    Returns:
        Shape (K, K), source in rows; the diagonal is the domains' own loss.
    """
    minima = measures.minima
    values = losses.values(head)
    bounds: Floats = target_error_bound(values[:, None], minima[:, None], minima[None, :], measures.one_sided)
    return bounds


@dataclass(frozen=True, eq=False)
class ManySourceBounds:
    """Bounds on the transfer measure from many sources S to any target T in their convex hull.

    `center_*` hold for the abstract centre of the sources, the point half-way between the extremes of the domains'
    optimality gaps, which need not be a distribution one can train on. `mixture_*` hold for the balanced mixture, which
    is what people train on.

    Attributes:
        center_one_sided: ½ max T(μ_i‖μ_j).
        center_symmetric: ½ max T(μ_i, μ_j).
        center_realizable: ½ max Tʳ(μ_i, μ_j).
        mixture_one_sided: (K−1)/K max T(μ_i‖μ_j) + gap.
        mixture_symmetric: (K−1)/K max T(μ_i, μ_j) + the larger of the gap and what another mixture's exceeds it by.
        mixture_realizable: (K−1)/K max Tʳ(μ_i, μ_j).
        gap: L_S* − mean_e L_e* of the balanced mixture.
        largest_gap: The largest L_w* − Σ_e w_e L_e* over all mixtures w.
        exact: False where the measures are lower estimates; so are the bounds then.
    """

    center_one_sided: float
    center_symmetric: float
    center_realizable: float
    mixture_one_sided: float
    mixture_symmetric: float
    mixture_realizable: float
    gap: float
    largest_gap: float
    exact: bool


def many_source_bounds(losses: DomainLosses, measures: TransferMeasures) -> ManySourceBounds:
    r"""Both bounds for a target :math:`\sum_e w_e \mu_e`, whatever its weights.

    For the balanced mixture S,
    :math:`T(S\|T) \le \frac{K-1}K \max_{i \ne j} T(\mu_i\|\mu_j) + (L_S^* - \frac1K\sum_i L_i^*)`. The other direction,
    which the symmetric measure needs too, has :math:`L_T^* - \sum_e w_e L_e^*` minus the same gap instead; the largest
    of these over w is a concave maximisation, and for two domains never above the gap itself.

    Args:
        losses: The sources' losses.
        measures: Their transfer measures.

    Returns:
        The bounds.
    """
    number = len(losses)
    balanced = np.full(number, 1 / number)
    gap, largest_gap = _gap(losses, measures.minima, balanced)[0], _largest_gap(losses, measures.minima)
    one, two, real = (
        float(matrix[largest_pair(matrix)]) for matrix in (measures.one_sided, measures.symmetric, measures.realizable)
    )
    share = (number - 1) / number
    return ManySourceBounds(
        one / 2,
        two / 2,
        real / 2,
        share * one + gap,
        share * two + max(gap, largest_gap - gap),
        share * real,
        gap,
        largest_gap,
        measures.exact,
    )


def _gap(losses: DomainLosses, minima: Floats, mixture: Floats) -> tuple[float, Floats]:
    """L_w* − Σ_e w_e L_e* and its derivative in w, the domains' optimality gaps at θ(w)."""
    head = mixture_minimizer(losses, torch.from_numpy(mixture))
    gaps = losses.values(head) - minima
    return float(mixture @ gaps), gaps


def _largest_gap(losses: DomainLosses, minima: Floats) -> float:
    """Largest gap over all mixtures; a minimum of functions linear in w is concave, so one start is enough."""
    number = len(losses)

    def negative(w: Floats) -> tuple[float, Floats]:
        value, slope = _gap(losses, minima, np.clip(w, 0, None) / np.clip(w, 0, None).sum())
        return -value, -slope

    start = np.full(number, 1 / number)
    best = minimize(
        negative,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * number,
        constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(number)}],
        options={"maxiter": 100, "ftol": 1e-12},
    )
    return max(-float(best.fun), -negative(start)[0])
