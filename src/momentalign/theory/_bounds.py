"""Bounds on a target's error: from one source, from many whose convex hull contains the target, for a given sample."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import LinearConstraint, minimize

from momentalign._types import Array
from momentalign.theory._losses import DomainLosses
from momentalign.theory._minimize import mixture_minimizer, smallest_loss
from momentalign.theory._transfer import TransferMeasures, largest_pair, mixture_transfer


def target_error_bound(source_loss: Any, source_minimum: Any, target_minimum: Any, transfer: Any) -> Any:
    r"""Bound :math:`L_T(\theta) \le L_S(\theta) + L_T^* - L_S^* + T(S\|T)` for every head of the ball.

    Args:
        source_loss: L_S at the head.
        source_minimum: L_S*.
        target_minimum: L_T*.
        transfer: One-sided transfer measure T(S‖T) over a ball that contains the head.

    Returns:
        The bound; the arguments may be arrays that broadcast.

    Example:
        >>> target_error_bound(source_loss=0.5, source_minimum=0.25, target_minimum=0.5, transfer=0.125)
        0.875
    """
    return source_loss + target_minimum - source_minimum + transfer


def pairwise_error_bounds(losses: DomainLosses, head: Any, measures: TransferMeasures) -> Array:
    """Bound on every domain's loss from every other's, at a head of the ball.

    Args:
        head: Shape (C, D), within the radius of the measures' centre.
        measures: Transfer measures of these losses.

    Returns:
        Shape (K, K), source in rows; the diagonal is the domains' own loss.
    """
    minima = measures.minima
    values = losses.values(head)
    bounds: Array = target_error_bound(values[:, None], minima[:, None], minima[None, :], measures.one_sided)
    return bounds


@dataclass(frozen=True, eq=False)
class ManySourceBounds:
    """Bounds on the transfer measure from many sources S to any target T in their convex hull.

    `mixture_*` hold for the balanced mixture, the usual training distribution. `midpoint_*` are ours and hold for no
    distribution: they replace the source's optimality gap by (max + min)/2 of the domains' gaps, head by head. The
    paper claims their ½ for its centre μ* = argmin_μ max_i T(μ_i‖μ), where it does not hold.

    Attributes:
        mixture_one_sided: (K−1)/K max T(μ_i‖μ_j) + gap.
        mixture_symmetric: (K−1)/K max T(μ_i, μ_j) + max(gap, largest_gap − gap).
        mixture_realizable: (K−1)/K max Tʳ(μ_i, μ_j).
        midpoint_one_sided: ½ max T(μ_i‖μ_j).
        midpoint_symmetric: ½ max T(μ_i, μ_j) + the largest gap.
        midpoint_realizable: ½ max Tʳ(μ_i, μ_j), for (max + min)/2 of the losses themselves.
        gap: L_S* − mean_e L_e* of the balanced mixture.
        largest_gap: The largest L_w* − Σ_e w_e L_e* over all mixtures w.
        exact: False if the measures are lower estimates; so are the bounds then.
    """

    mixture_one_sided: float
    mixture_symmetric: float
    mixture_realizable: float
    midpoint_one_sided: float
    midpoint_symmetric: float
    midpoint_realizable: float
    gap: float
    largest_gap: float
    exact: bool


def many_source_bounds(losses: DomainLosses, measures: TransferMeasures) -> ManySourceBounds:
    r"""Bounds for a target :math:`\sum_e w_e \mu_e` with any weights.

    For the balanced mixture S,
    :math:`T(S\|T) \le \frac{K-1}K \max_{i \ne j} T(\mu_i\|\mu_j) + (L_S^* - \frac1K\sum_i L_i^*)`. The other direction,
    which the symmetric measure needs too, has :math:`L_T^* - \sum_e w_e L_e^*` minus the same gap instead; the largest
    of these over w is a concave maximisation, and for two domains never above the gap itself.

    For the midpoint of the gaps, :math:`m(\theta) = \frac12 (\max_e + \min_e)\,[L_e - L_e^*]`, a gap of any mixture
    exceeds m by at most :math:`\frac12 \max_{i \ne j} T(\mu_i\|\mu_j)`; the other direction adds the mixture's
    :math:`L_w^* - \sum_e w_e L_e^*`.

    Args:
        measures: Their transfer measures.
    """
    number = len(losses)
    balanced = np.full(number, 1 / number)
    gap, largest_gap = _gap(losses, measures.minima, balanced)[0], _largest_gap(losses, measures.minima)
    one, two, real = (
        float(matrix[largest_pair(matrix)]) for matrix in (measures.one_sided, measures.symmetric, measures.realizable)
    )
    share = (number - 1) / number
    return ManySourceBounds(
        share * one + gap,
        share * two + max(gap, largest_gap - gap),
        share * real,
        one / 2,
        two / 2 + largest_gap,
        real / 2,
        gap,
        largest_gap,
        measures.exact,
    )


@dataclass(frozen=True, eq=False)
class TargetErrors:
    """Losses of a target sample at the centre of the ball, and bounds on them.

    Attributes:
        loss: The target's loss at the centre.
        minimum: Its smallest loss over all heads.
        source_loss: The balanced mixture's loss at the centre.
        source_minimum: Its smallest loss over all heads.
        transfer: T(S‖T) from the balanced mixture S to the target over the ball.
        from_sources: The same from each source alone, shape (K,).
        bound: L_S + L_T* − L_S* + T(S‖T), which uses the target's own sample.
        hull_bound: The same with the balanced-mixture bound, which only assumes that the target is in the hull.
        exact: False if the measures are lower estimates.
    """

    loss: float
    minimum: float
    source_loss: float
    source_minimum: float
    transfer: float
    from_sources: Array
    bound: float
    hull_bound: float
    exact: bool


def target_errors(
    losses: DomainLosses, target: Any, target_labels: Any, center: Any, radius: float, bounds: ManySourceBounds
) -> TargetErrors:
    """Measure the transfer to a labelled target and compare its loss with the bounds.

    Args:
        target: Features of the target, shape (m, d).
        target_labels: Its labels, shape (m,).
        center: Head at the centre of the ball, shape (C, D).
        radius: √δ, above zero.
        bounds: Bounds of these sources over the same ball.
    """
    features, targets = losses.encode(target, target_labels)
    number = len(losses)
    joined = DomainLosses(
        torch.cat([losses.features, features]),
        torch.cat([losses.targets, torch.as_tensor(targets)]),
        torch.cat([losses.domains, losses.domains.new_full((len(features),), number)]),
        l2=losses.l2,
        loss=losses.loss,
        bias=losses.bias,
    )
    *sources, last = np.eye(number + 1)
    balanced = np.mean(sources, 0)
    values = joined.values(center)
    source_minimum, minimum = (smallest_loss(joined, weights) for weights in (balanced, last))
    source_loss = float(balanced @ values)
    measured, *alone = (mixture_transfer(joined, source, last, center, radius) for source in (balanced, *sources))
    bound, hull_bound = (
        float(target_error_bound(source_loss, source_minimum, minimum, transfer))
        for transfer in (measured, bounds.mixture_one_sided)
    )
    exact = losses.loss == "squared_error"
    loss = float(values[-1])
    return TargetErrors(loss, minimum, source_loss, source_minimum, measured, np.array(alone), bound, hull_bound, exact)


def _gap(losses: DomainLosses, minima: Array, mixture: Array) -> tuple[float, Array]:
    """L_w* − Σ_e w_e L_e* and its derivative in w, the domains' optimality gaps at θ(w)."""
    gaps = losses.values(mixture_minimizer(losses, mixture)) - minima
    return float(mixture @ gaps), gaps


def _largest_gap(losses: DomainLosses, minima: Array) -> float:
    """Largest gap over all mixtures; a minimum of functions linear in w is concave, so one start is enough."""
    number = len(losses)

    def negative(w: Array) -> tuple[float, Array]:
        w = w.clip(0)
        value, slope = _gap(losses, minima, w / w.sum())
        return -value, -slope

    best = minimize(
        negative,
        np.full(number, 1 / number),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * number,
        constraints=LinearConstraint(np.ones(number), 1, 1),
        options={"maxiter": 100, "ftol": 1e-12},
    )
    return -float(best.fun)
