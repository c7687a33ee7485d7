r"""The head :math:`\theta^*` at the centre of the bounds.

For convex losses a head is weakly Pareto optimal if 0 lies in the convex hull of the domains' gradients, and every
such head is :math:`\theta(w) = \arg\min \sum_e w_e L_e` for some w in the simplex. Among them :math:`\theta^*` has the
smallest largest gradient norm.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import LinearConstraint, NonlinearConstraint, minimize, nnls
from torch import Tensor

from momentalign._types import Array
from momentalign.theory._losses import DomainLosses
from momentalign.theory._minimize import mixture_minimizer, solve_hessian

_RANDOM, _DESCENTS = 8, 3
"""Number of random mixtures among the starts, and of starts that are optimised."""


class Combination(NamedTuple):
    """Weights on the simplex and the norm of the combination they give."""

    weights: Array
    norm: float


def smallest_combination(gram: Any) -> Combination:
    r"""Minimise :math:`\|\sum_e a_e v_e\|` over the simplex, for vectors known by their inner products.

    For convex losses 0 in the hull of the domains' gradients is weak Pareto optimality. With a root A of the Gram
    matrix this is non-negative least squares: :math:`\min_{u \ge 0} \|Au\|^2 + (\mathbf 1^\top u - 1)^2` has its
    minimum on the ray of the solution, because over a ray it is increasing in :math:`\|Aa\|^2`. Inner products hold
    squares, so a norm below 1e-8 of the vectors' is zero to rounding.

    Args:
        gram: Inner products of the K vectors, shape (K, K).

    Returns:
        Weights (K,) that sum to one, and the norm.

    Example:
        >>> weights, norm = smallest_combination([[1.0, -2.0], [-2.0, 4.0]])  # v and −2v: 2/3 and 1/3 cancel
        >>> weights.round(6), round(norm, 6)
        (array([0.666667, 0.333333]), 0.0)
    """
    matrix = np.asarray(gram, dtype=np.float64)
    matrix = (matrix + matrix.T) / 2
    scale = float(np.trace(matrix)) / len(matrix)
    if scale <= 0:
        return Combination(np.full(len(matrix), 1 / len(matrix)), 0.0)
    values, vectors = np.linalg.eigh(matrix / scale)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T
    solution, _ = nnls(np.vstack([root, np.ones(len(matrix))]), np.append(np.zeros(len(matrix)), 1.0))
    weights: Array = solution / solution.sum()
    return Combination(weights, max(float(weights @ matrix @ weights), 0.0) ** 0.5)


@dataclass(frozen=True, eq=False)
class ParetoPoint:
    """The weakly Pareto-optimal head with the smallest largest gradient norm that was found.

    The problem over the mixture weights is smooth but not convex: several starts solve it reliably, yet without a
    certificate. `check` certifies that the head is weakly Pareto optimal.

    Attributes:
        head: Shape (C, D), the bias last.
        values: The domains' losses at the head, shape (K,).
        weights: Mixture weights w with head = θ(w), shape (K,).
        gradient_norms: ‖∇L_e‖ at the head, L2 term included, shape (K,); the largest is the g of the bounds.
        check: The smallest combination of the domains' gradients: weights and a norm that is zero to rounding.
    """

    head: Array
    values: Array
    weights: Array
    gradient_norms: Array
    check: Combination


def pareto_point(losses: DomainLosses) -> ParetoPoint:
    r"""Minimise :math:`\max_e \|\nabla L_e(\theta(w))\|` over the simplex.

    The derivative is exact: :math:`\partial\theta/\partial w_f = -H_w^{-1} g_f` with :math:`H_w = \sum_e w_e H_e`.
    Sequential quadratic programming runs on the epigraph, from the best of the starts: the balanced mixture, those that
    favour one domain, and random ones.

    Example:
        >>> X = np.array([[1.0], [1.0]])
        >>> losses = DomainLosses(X, [0.0, 2.0], ["a", "b"], loss="squared_error", l2=1e-6, bias=False)
        >>> pareto_point(losses).gradient_norms.round(3)  # half-way between the two optima
        array([1., 1.])
    """
    number = len(losses)
    heads: dict[bytes, Tensor] = {}

    def head(mixture: Array) -> Tensor:
        """θ(w), which does not change with the length of w; a step may leave the simplex by rounding."""
        key = mixture.tobytes()
        if key not in heads:
            heads[key] = mixture_minimizer(losses, _on_simplex(mixture), next(reversed(heads.values()), None))
        return heads[key]

    def squares(mixture: Array) -> Array:
        found: Array = losses.gradients(head(mixture)).square().sum((1, 2)).numpy()
        return found

    def jacobian(mixture: Array) -> Array:
        theta = head(mixture)
        G = losses.gradients(theta)
        slopes = -solve_hessian(losses.mixture(_on_simplex(mixture)), theta, G).flatten(1)
        curved = torch.stack([part.hessian_times(theta, g) for part, g in zip(losses.parts, G, strict=True)])
        derivative: Array = (2 * curved.flatten(1) @ slopes.T).numpy()
        return derivative

    candidates = [np.full(number, 1 / number), *(0.1 / number + 0.9 * np.eye(number))]
    candidates += list(np.random.default_rng(0).dirichlet(np.ones(number), _RANDOM))
    candidates.sort(key=lambda w: squares(w).max())
    for start in candidates[:_DESCENTS]:
        if (scale := squares(start).max()) > 1e-24:
            candidates.append(_descend(start, squares, jacobian, scale))
    best = _on_simplex(min(candidates, key=lambda w: squares(w).max()))
    theta = head(best)
    gradients = losses.gradients(theta).flatten(1)
    check = smallest_combination(gradients @ gradients.T)
    return ParetoPoint(theta.numpy(), losses.values(theta), best, gradients.norm(dim=1).numpy(), check)


def _on_simplex(mixture: Array) -> Array:
    clipped = mixture.clip(0)
    scaled: Array = clipped / clipped.sum()
    return scaled


def _descend(start: Array, squares: Any, jacobian: Any, scale: float) -> Array:
    """Minimise t over (w, t) with squares(w) ≤ t·scale and w on the simplex."""
    number = len(start)
    height = np.append(np.zeros(number), 1.0)

    def slopes(v: Array) -> Array:
        return np.hstack([-jacobian(v[:-1]) / scale, np.ones((number, 1))])

    found = minimize(
        lambda v: (v[-1], height),
        np.append(start, 1.0),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * number + [(0, None)],
        constraints=[
            LinearConstraint(1 - height, 1, 1),
            NonlinearConstraint(lambda v: v[-1] - squares(v[:-1]) / scale, 0, np.inf, slopes),
        ],
        options={"maxiter": 100, "ftol": 1e-14},
    )
    mixture: Array = found.x[:-1]
    return mixture
