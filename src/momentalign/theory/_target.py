"""A labelled target against the bounds: what they say and what happens."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentalign.theory._bounds import ManySourceBounds, target_error_bound
from momentalign.theory._inputs import Floats, as_features
from momentalign.theory._losses import DomainLosses
from momentalign.theory._newton import smallest_loss
from momentalign.theory._transfer import mixture_transfer


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
        bound: L_S + L_T* − L_S* + T(S‖T), which the target's own sample entered.
        hull_bound: The same with the balanced-mixture bound, which takes the target to lie in the hull and no more.
        exact: False where the measures are lower estimates.
    """

    loss: float
    minimum: float
    source_loss: float
    source_minimum: float
    transfer: float
    from_sources: Floats
    bound: float
    hull_bound: float
    exact: bool


def target_errors(
    losses: DomainLosses,
    target: Any,
    target_labels: Any,
    center: Any,
    radius: float,
    bounds: ManySourceBounds,
    *,
    restarts: int = 8,
    seed: int = 0,
) -> TargetErrors:
    """Measure the transfer to a labelled target and hold its loss against the bounds.

    Args:
        losses: The sources.
        target: Features of the target, shape (m, d).
        target_labels: Its labels, shape (m,).
        center: Head in the middle of the ball, shape (C, D).
        radius: √δ, above zero.
        bounds: Of these sources, over the same ball.
        restarts: Random starts of the ascent.
        seed: Of the random starts.

    Returns:
        Losses, measures and bounds.
    """
    features = as_features("target", target, losses.features.shape[1])
    targets = losses.encode_targets("target_labels", target_labels, len(features), "target")
    joined = losses.with_domain("target", features, targets)
    number = len(losses)
    rows = np.eye(number + 1)
    balanced, last = np.append(np.full(number, 1 / number), 0.0), rows[-1]

    def transfer(source: Floats) -> float:
        return mixture_transfer(joined, source, last, center, radius, restarts=restarts, seed=seed)

    values = joined.values(center)
    minima = [smallest_loss(joined, weights) for weights in (balanced, last)]
    source_loss, measured = float(balanced @ values), transfer(balanced)
    return TargetErrors(
        float(values[-1]),
        minima[1],
        source_loss,
        minima[0],
        measured,
        np.array([transfer(row) for row in rows[:-1]]),
        float(target_error_bound(source_loss, minima[0], minima[1], measured)),
        float(target_error_bound(source_loss, minima[0], minima[1], bounds.mixture_one_sided)),
        losses.loss == "squared_error",
    )
