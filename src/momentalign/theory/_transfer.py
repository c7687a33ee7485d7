"""Transfer measures between all pairs of domains: suprema of loss differences over a ball of heads."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from momentalign._types import Array
from momentalign.theory._losses import DomainLosses, WeightedLoss, check_positive
from momentalign.theory._minimize import mixture_minimizer

_ITERATIONS = 500
"""Most steps of an ascent."""
_RESTARTS = 8
"""Random starts of an ascent."""


@dataclass(frozen=True, eq=False)
class TransferMeasures:
    """Transfer measures with the source in rows and the target in columns, zero on the diagonal.

    Attributes:
        one_sided: T(i‖j), the supremum over the ball of L_j − L_j* − (L_i − L_i*); shape (K, K).
        symmetric: The larger of both directions; shape (K, K).
        realizable: The supremum of `abs(L_i − L_j)`; shape (K, K).
        minima: L_e*, each domain's smallest loss over all heads; shape (K,).
        radius: Radius of the ball.
        exact: True for quadratics, in closed form; False if the suprema were found by ascent, which makes every entry
            and all bounds computed from them lower estimates.
    """

    one_sided: Array
    symmetric: Array
    realizable: Array
    minima: Array
    radius: float
    exact: bool


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
    number = len(losses)
    one_sided, minima = mixture_transfers(losses, np.eye(number), permutations(range(number), 2), center, radius)
    largest = one_sided + minima[None, :] - minima[:, None]
    symmetric, realizable = (np.maximum(matrix, matrix.T) for matrix in (one_sided, largest))
    return TransferMeasures(one_sided, symmetric, realizable, minima, radius, losses.loss == "squared_error")


def mixture_transfers(
    losses: DomainLosses, mixtures: Any, pairs: Iterable[tuple[int, int]], center: Any, radius: float
) -> tuple[Array, Array]:
    """One-sided transfer measures between mixtures of the domains.

    Args:
        mixtures: Weights of m mixtures, shape (m, K).
        pairs: Rows of source and target of each measure that is wanted.
        center: Head at the centre of the ball, shape (C, D).
        radius: √δ, above zero.

    Returns:
        T(source‖target), shape (m, m), zero where it was not asked for; a lower estimate unless the loss is squared
        error. And the mixtures' smallest losses over all heads, shape (m,).
    """
    weights, theta = np.asarray(mixtures, dtype=np.float64), losses.as_head(center)
    radius = check_positive("radius", radius)
    heads = [mixture_minimizer(losses, w) for w in weights]
    minima = np.array([w @ losses.values(head) for w, head in zip(weights, heads, strict=True)])
    transfers = np.zeros((len(weights), len(weights)))
    for i, j in pairs:
        largest = _supremum(losses, weights[j] - weights[i], theta, radius, [heads[i], heads[j]])
        transfers[i, j] = largest - (minima[j] - minima[i])
    return transfers, minima


def largest_entry(matrix: Array) -> float:
    """Largest entry off the diagonal."""
    return float(matrix[~np.eye(len(matrix), dtype=bool)].max())


def _supremum(losses: DomainLosses, mixture: Array, center: Tensor, radius: float, toward: list[Tensor]) -> float:
    """Largest value of Σ_e a_e L_e on the ball for weights that sum to zero, where the L2 terms cancel."""
    function = losses.mixture(mixture)
    if losses.loss != "squared_error":
        return ascend(function, center, radius, toward)
    values, slopes = function.evaluate(center[None])
    curvatures, vectors = torch.linalg.eigh((function.inputs * function.weights[:, None]).T @ function.inputs)
    # The Hessian is the same for every output: the sum over outputs of squared slopes is all that counts.
    squares = (slopes[0] @ vectors).square().sum(0)
    return values.item() + largest_quadratic(curvatures.numpy(), squares.numpy(), radius)


def ascend(function: WeightedLoss, center: Tensor, radius: float, toward: list[Tensor]) -> float:
    """Largest value found on the ball by projected gradient ascent with spectral steps, from all starts at once.

    Starts are the centre, the projections of the heads `toward` and random points of the sphere.
    """

    def project(heads: Tensor) -> Tensor:
        offset = heads - center
        return center + offset * (radius / _lengths(offset).clamp(min=radius))

    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(_RESTARTS, *center.shape, generator=generator, dtype=center.dtype)
    heads = project(torch.cat([torch.stack([center, *toward]), center + radius * noise / _lengths(noise)]))
    values, slopes = function.evaluate(heads)
    steps = radius / _lengths(slopes)
    for _ in range(_ITERATIONS):
        trial = project(heads + steps * slopes)
        moves = trial - heads
        if (_lengths(moves) < 1e-9 * radius).all():
            break
        new_values, new_slopes = function.evaluate(trial)
        # Barzilai-Borwein step from the latest curvature; a shorter step where the trial gained nothing.
        bend = (moves * (new_slopes - slopes)).sum((1, 2), keepdim=True).abs()
        spectral = moves.square().sum((1, 2), keepdim=True) / bend.clamp(min=1e-300)
        better = (new_values > values)[:, None, None]
        steps = torch.where(better, spectral.minimum(1e3 * radius / _lengths(new_slopes)), steps / 4)
        heads, slopes = torch.where(better, trial, heads), torch.where(better, new_slopes, slopes)
        values = torch.maximum(values, new_values)
    return values.max().item()


def _lengths(heads: Tensor) -> Tensor:
    """Norms of matrices (S, C, D), shape (S, 1, 1), never zero."""
    norms: Tensor = torch.linalg.matrix_norm(heads, keepdim=True)
    return norms.clamp(min=1e-300)


def largest_quadratic(eigenvalues: Array, squares: Array, radius: float) -> float:
    r"""Largest value of :math:`\frac12\langle x, Ax\rangle + \langle b, x\rangle` over :math:`\|x\| \le R`.

    It is the smallest of the dual, :math:`\frac12 (\mu R^2 + \sum_i b_i^2/(\mu - \lambda_i))` over :math:`\mu \ge 0`
    and :math:`\mu \ge \lambda_i`: there is no gap, though the function need not be concave. The dual is convex, and
    its minimum lies within ‖b‖/R of the smallest μ.

    Args:
        eigenvalues: λ of A, in any order, shape (m,).
        squares: b² in the eigenbasis, summed over the coordinates of an eigenvalue, shape (m,).
        radius: Radius R of the ball around 0.

    Returns:
        The largest value, at least 0.

    Example:
        >>> largest_quadratic(np.array([1.0, -1.0]), np.zeros(2), 2.0)
        2.0
        >>> largest_quadratic(np.array([-1.0]), np.array([1.0]), 2.0)
        0.5
    """
    least, active = max(float(eigenvalues.max()), 0.0), squares > 0
    # Distances from the smallest allowed μ, not μ itself: next to it μ − λ keeps all its digits.
    gaps, slopes = least - eigenvalues[active], squares[active]

    def dual(above: float) -> float:
        with np.errstate(divide="ignore", over="ignore"):
            return float((least + above) * radius**2 + (slopes / (above + gaps)).sum()) / 2

    upper = float(squares.sum()) ** 0.5 / radius
    found = minimize_scalar(dual, bounds=(0.0, upper), method="bounded", options={"xatol": 1e-14 * upper})
    return min(dual(0.0), float(found.fun))
