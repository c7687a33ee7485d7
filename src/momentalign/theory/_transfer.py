"""Transfer measures between all pairs of domains: suprema of loss differences over a ball of heads."""

from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from momentalign._types import Array
from momentalign.theory._losses import DomainLosses, WeightedLoss, check_positive
from momentalign.theory._minimize import domain_minimizers, mixture_minimizer

_ITERATIONS = 500
"""Most steps of an ascent."""
_RESTARTS = 8
"""Random starts of an ascent."""


@dataclass(frozen=True, eq=False)
class TransferMeasures:
    """Transfer measures with the source in rows and the target in columns, zero on the diagonal.

    Attributes:
        names: Names of the domains.
        one_sided: T(i‖j), the supremum over the ball of L_j − L_j* − (L_i − L_i*); shape (K, K).
        symmetric: The larger of both directions; shape (K, K).
        realizable: The supremum of `abs(L_i − L_j)`; shape (K, K).
        minima: L_e*, each domain's smallest loss over all heads; shape (K,).
        radius: Radius of the ball.
        exact: True for quadratics, in closed form; False if the suprema were found by ascent, which makes every entry
            a lower estimate.
    """

    names: tuple[str, ...]
    one_sided: Array
    symmetric: Array
    realizable: Array
    minima: Array
    radius: float
    exact: bool

    @property
    def worst_pair(self) -> tuple[str, str]:
        """Source and target with the largest one-sided measure."""
        source, target = largest_pair(self.one_sided)
        return self.names[source], self.names[target]


def transfer_measures(losses: DomainLosses, center: Any, radius: float) -> TransferMeasures:
    r"""Transfer measures between all pairs over the ball :math:`\|\theta - \theta^*\| \le` radius.

    The L2 terms of two domains cancel, so all three measures come from the largest values of
    :math:`L_j - L_i` on the ball. For squared error that is a quadratic whose maximum has a closed form
    (a trust-region subproblem). Otherwise projected ascent starts from the centre, from both domains' own optima and
    from random points of the sphere; a supremum found this way can only be too small.

    Args:
        center: Head at the centre of the ball, shape (C, D); the bounds need that of :func:`pareto_point`.
        radius: √δ, above zero.

    Example:
        >>> X, domains = np.array([[1.0], [2.0]]), ["a", "b"]
        >>> losses = DomainLosses(X, [0.0, 0.0], domains, loss="squared_error", bias=False)
        >>> transfer_measures(losses, [[0.0]], radius=1.0).one_sided  # ½(4 − 1) at θ = ±1, and 0 at θ = 0
        array([[0. , 1.5],
               [0. , 0. ]])
    """
    ball = Ball(losses.as_head(center), check_positive("radius", radius))
    heads = domain_minimizers(losses)
    minima = np.array([losses.values(head)[e] for e, head in enumerate(heads)])
    basis = np.eye(len(losses))
    largest = np.zeros_like(basis)
    for i, j in permutations(range(len(losses)), 2):
        largest[i, j] = _supremum(losses, basis[j] - basis[i], ball, [heads[i], heads[j]])
    one_sided = largest - (minima[None, :] - minima[:, None])
    np.fill_diagonal(one_sided, 0.0)
    return TransferMeasures(
        losses.names,
        one_sided,
        np.maximum(one_sided, one_sided.T),
        np.maximum(largest, largest.T),
        minima,
        ball.radius,
        losses.loss == "squared_error",
    )


def mixture_transfer(losses: DomainLosses, source: Any, target: Any, center: Any, radius: float) -> float:
    """One-sided transfer measure between two mixtures of the domains.

    Args:
        source: Mixture weights of the source, shape (K,).
        target: Mixture weights of the target, shape (K,).
        center: Head at the centre of the ball, shape (C, D).
        radius: √δ, above zero.

    Returns:
        T(source‖target); a lower estimate unless the loss is squared error.
    """
    ball = Ball(losses.as_head(center), check_positive("radius", radius))
    weights = np.asarray([source, target], dtype=np.float64)
    heads = [mixture_minimizer(losses, w) for w in weights]
    minima = [float(w @ losses.values(head)) for w, head in zip(weights, heads, strict=True)]
    return _supremum(losses, weights[1] - weights[0], ball, heads) - (minima[1] - minima[0])


def largest_pair(matrix: Array) -> tuple[int, int]:
    """Row and column of the largest entry off the diagonal."""
    off = np.where(np.eye(len(matrix), dtype=bool), -np.inf, matrix)
    row, column = np.unravel_index(int(off.argmax()), off.shape)
    return int(row), int(column)


class Ball(NamedTuple):
    """Heads within `radius` of `center` (C, D)."""

    center: Tensor
    radius: float

    def project(self, heads: Tensor) -> Tensor:
        """Project heads (S, C, D) onto the ball."""
        offset = heads - self.center
        return self.center + offset * (self.radius / _lengths(offset).clamp(min=self.radius))

    def starts(self, toward: list[Tensor]) -> Tensor:
        """Starts (S, C, D): the centre, the projections of given heads, random points of the sphere."""
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(_RESTARTS, *self.center.shape, generator=generator, dtype=self.center.dtype)
        sphere = self.center + self.radius * noise / _lengths(noise)
        return torch.cat([self.center[None], self.project(torch.stack(toward)), sphere])


def _supremum(losses: DomainLosses, mixture: Array, ball: Ball, toward: list[Tensor]) -> float:
    """Largest value of Σ_e a_e L_e on the ball for weights that sum to zero, where the L2 terms cancel."""
    function = losses.mixture(mixture)
    if losses.loss != "squared_error":
        return ascend(function, ball, ball.starts(toward))
    values, slopes = function.evaluate(ball.center[None])
    curvatures, vectors = torch.linalg.eigh((function.inputs * function.weights[:, None]).T @ function.inputs)
    slope = slopes[0] @ vectors
    # The Hessian is the same for every output: the eigenvalues repeat.
    eigenvalues = curvatures.repeat(len(slope)).numpy()
    return values.item() + largest_quadratic(eigenvalues, slope.flatten().numpy(), ball.radius)


def ascend(function: WeightedLoss, ball: Ball, heads: Tensor) -> float:
    """Largest value found by projected gradient ascent with spectral steps, from all heads (S, C, D) at once."""
    values, slopes = function.evaluate(heads)
    steps = ball.radius / _lengths(slopes)
    best = values.max()
    for _ in range(_ITERATIONS):
        trial = ball.project(heads + steps * slopes)
        moves = trial - heads
        # A start has converged when its step leads back to the same head; it is dropped.
        active = _lengths(moves).flatten() > 1e-9 * ball.radius
        if not active.any():
            break
        heads, slopes, trial, moves, values, steps = (
            each[active] for each in (heads, slopes, trial, moves, values, steps)
        )
        new_values, new_slopes = function.evaluate(trial)
        better = new_values >= values + 1e-4 * (slopes * moves).sum((1, 2))
        # Barzilai-Borwein step from the latest curvature; a shorter step where the trial gained nothing.
        bend = (moves * (new_slopes - slopes)).sum((1, 2), keepdim=True).abs()
        spectral = moves.square().sum((1, 2), keepdim=True) / bend.clamp(min=1e-300)
        longest = 1e3 * ball.radius / _lengths(new_slopes)
        keep = better[:, None, None]
        steps = torch.where(keep, torch.minimum(spectral, longest), steps / 4)
        heads, slopes = torch.where(keep, trial, heads), torch.where(keep, new_slopes, slopes)
        values = torch.where(better, new_values, values)
        best = torch.maximum(best, values.max())
    return best.item()


def _lengths(heads: Tensor) -> Tensor:
    """Norms of matrices (S, C, D), shape (S, 1, 1), never zero."""
    norms: Tensor = torch.linalg.matrix_norm(heads, keepdim=True)
    return norms.clamp(min=1e-300)


def largest_quadratic(eigenvalues: Array, linear: Array, radius: float) -> float:
    r"""Largest value of a quadratic function on a ball, given in the eigenbasis; closed form except for one root.

    At the maximum of :math:`\frac12\langle x, Ax\rangle + \langle b, x\rangle` over :math:`\|x\| \le R` there is a
    :math:`\mu \ge 0` with :math:`\mu I - A` positive semi-definite and :math:`(\mu I - A)x = b`; where :math:`\mu > 0`
    the point lies on the sphere. In the eigenbasis of A the length of x decreases in μ beyond the largest eigenvalue.

    Args:
        eigenvalues: Eigenvalues of A, one per coordinate, in any order and with repetitions, shape (m,).
        linear: b in the eigenbasis, shape (m,).
        radius: Radius of the ball around 0.

    Returns:
        The largest value, at least 0.

    Example:
        >>> largest_quadratic(np.array([1.0, -1.0]), np.zeros(2), 2.0)
        2.0
        >>> largest_quadratic(np.array([-1.0]), np.array([1.0]), 2.0)
        0.5
    """
    least = max(float(eigenvalues.max()), 0.0)
    # Distances from the smallest allowed μ, not μ itself: near the hard case μ − λ keeps all its digits.
    gaps = least - eigenvalues
    size = float(np.linalg.norm(linear))
    active = linear != 0

    def point(above: float) -> Array:
        x = np.zeros_like(linear)
        with np.errstate(over="ignore", divide="ignore"):
            x[active] = linear[active] / (above + gaps[active])
        return x

    def value(x: Array) -> float:
        return float(0.5 * eigenvalues @ x**2 + linear @ x)

    def excess(above: float) -> float:
        with np.errstate(over="ignore"):
            length = np.linalg.norm(point(above))
        return float(1 / radius - (1 / length if length > 0 else np.inf))

    if size == 0 or excess(0.0) <= 0:
        # Inside, or the hard case: the remaining length goes along the top eigenvector, with either sign.
        x = point(0.0)
        return value(x) + 0.5 * least * max(radius**2 - float(x @ x), 0.0)
    upper = size / radius
    while excess(upper) > 0:
        upper *= 2
    x = point(brentq(excess, 0.0, upper, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=2000))
    return value(x * (radius / np.linalg.norm(x)))
