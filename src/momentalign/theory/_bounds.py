"""Bounds on a target's error: from many sources whose convex hull contains it, and for a given sample."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import LinearConstraint, minimize

from momentalign._types import Array
from momentalign.theory._losses import DomainLosses
from momentalign.theory._minimize import mixture_minimizer
from momentalign.theory._transfer import TransferMeasures, largest_entry, mixture_transfers


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
    """

    mixture_one_sided: float
    mixture_symmetric: float
    mixture_realizable: float
    midpoint_one_sided: float
    midpoint_symmetric: float
    midpoint_realizable: float
    gap: float
    largest_gap: float


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
    gap = -_negative_gap(balanced, losses, measures.minima)[0]
    # A minimum of functions linear in w is concave, so one start is enough.
    largest_gap = -minimize(
        _negative_gap,
        balanced,
        (losses, measures.minima),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * number,
        constraints=LinearConstraint(np.ones(number), 1, 1),
        options={"maxiter": 100, "ftol": 1e-12},
    ).fun
    one, two, real = map(largest_entry, (measures.one_sided, measures.symmetric, measures.realizable))
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
    """

    loss: float
    minimum: float
    source_loss: float
    source_minimum: float
    transfer: float
    from_sources: Array
    bound: float
    hull_bound: float


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
    balanced = np.append(np.full(number, 1 / number), 0.0)
    mixtures = np.vstack([np.eye(number + 1), balanced])
    pairs = [(source, number) for source in (*range(number), number + 1)]
    transfers, minima = mixture_transfers(joined, mixtures, pairs, center, radius)
    *alone, _, transfer = transfers[:, number]
    *_, minimum, source_minimum = minima
    *values, loss = joined.values(center)
    source_loss = float(np.mean(values))
    bound, hull_bound = (source_loss + minimum - source_minimum + most for most in (transfer, bounds.mixture_one_sided))
    return TargetErrors(loss, minimum, source_loss, source_minimum, transfer, np.array(alone), bound, hull_bound)


def _negative_gap(mixture: Array, losses: DomainLosses, minima: Array) -> tuple[float, Array]:
    """−(L_w* − Σ_e w_e L_e*) and its derivative in w, at weights that a step may have brought off the simplex."""
    mixture = mixture.clip(0) / mixture.clip(0).sum()
    gaps = losses.values(mixture_minimizer(losses, mixture)) - minima
    return -float(mixture @ gaps), -gaps
