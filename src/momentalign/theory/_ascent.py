"""Projected gradient ascent on a ball, many starts at once: what it finds is a lower estimate of the supremum."""

from dataclasses import dataclass

import torch
from torch import Tensor

from momentalign.theory._losses import DomainLosses, losses_and_residuals
from momentalign.theory._newton import WeightedLoss


@dataclass(frozen=True)
class Ball:
    """Heads within `radius` of `center` (C, D)."""

    center: Tensor
    radius: float

    def project(self, heads: Tensor) -> Tensor:
        """The nearest points of the ball to heads (S, C, D)."""
        offset = heads - self.center
        length = offset.flatten(1).norm(dim=1)
        shrink = self.radius / length.clamp(min=self.radius)
        return torch.addcmul(self.center, offset, shrink[:, None, None])

    def starts(self, toward: list[Tensor], restarts: int, seed: int) -> Tensor:
        """The centre, the points next to given heads, and random points of the sphere; shape (S, C, D)."""
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(restarts, *self.center.shape, generator=generator, dtype=self.center.dtype)
        sphere = self.center + self.radius * noise / noise.flatten(1).norm(dim=1).clamp(min=1e-300)[:, None, None]
        return torch.cat([self.center[None], self.project(torch.stack(toward)), sphere])


def largest_difference(
    losses: DomainLosses, mixture: Tensor, ball: Ball, starts: Tensor, iterations: int = 500
) -> float:
    """Largest value found of Σ_e a_e L_e on a ball, for weights a (K,) that sum to zero: the L2 terms cancel.

    Args:
        losses: The domains' losses.
        mixture: a, of either sign.
        ball: Where to look.
        starts: Heads of the ball, shape (S, C, D).
        iterations: At most.

    Returns:
        The value at a head of the ball.
    """
    function = WeightedLoss.mixture(losses, mixture)
    heads = starts
    values, slopes = _evaluate(function, heads)
    steps = ball.radius / _lengths(slopes)
    best = float(values.max())
    for _ in range(iterations):
        trial = ball.project(heads + steps[:, None, None] * slopes)
        move = (trial - heads).flatten(1)
        # A start has arrived when its step leads back to where it stands; it need not be looked at again.
        going = move.norm(dim=1) > 1e-9 * ball.radius
        if not going.any():
            break
        if not going.all():
            heads, slopes, trial, move = heads[going], slopes[going], trial[going], move[going]
            values, steps = values[going], steps[going]
        found, new_slopes = _evaluate(function, trial)
        better = found >= values + 1e-4 * (slopes.flatten(1) * move).sum(1)
        # Barzilai and Borwein's step from the curvature just seen, a shorter one where the trial was no gain.
        bend = (move * (new_slopes - slopes).flatten(1)).sum(1).abs()
        spectral = move.square().sum(1) / bend.clamp(min=1e-300)
        longest = 1e3 * ball.radius / _lengths(new_slopes)
        steps = torch.where(better, torch.minimum(spectral, longest), steps / 4)
        keep = better[:, None, None]
        heads, slopes = torch.where(keep, trial, heads), torch.where(keep, new_slopes, slopes)
        values = torch.where(better, found, values)
        best = max(best, float(values.max()))
    return best


def _lengths(slopes: Tensor) -> Tensor:
    lengths: Tensor = slopes.flatten(1).norm(dim=1)
    return lengths.clamp(min=1e-300)


def _evaluate(function: WeightedLoss, heads: Tensor) -> tuple[Tensor, Tensor]:
    """Values (S,) and gradients (S, C, D) at heads (S, C, D); the L2 term has no part in a difference."""
    number, outputs, width = heads.shape
    rows = len(function.inputs)
    logits = (function.inputs @ heads.reshape(-1, width).T).reshape(rows * number, outputs)
    targets = function.targets.repeat_interleave(number, 0)
    samples, residual = losses_and_residuals(function.loss, logits, targets)
    weighted = residual.reshape(rows, number * outputs) * function.weights[:, None]
    return function.weights @ samples.reshape(rows, number), (weighted.T @ function.inputs).reshape(heads.shape)
