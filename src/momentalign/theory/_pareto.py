r"""The head :math:`\theta^*` at the centre of the bounds.

For convex losses a head is weakly Pareto optimal if 0 lies in the convex hull of the domains' gradients, and every
such head is :math:`\theta(w) = \arg\min \sum_e w_e L_e` for some w in the simplex. Among them :math:`\theta^*` has the
smallest largest gradient norm.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize, nnls

from momentalign._types import Array
from momentalign._validation import check_count
from momentalign.theory._losses import DomainLosses
from momentalign.theory._minimize import WeightedLoss, mixture_minimizer

_DESCENTS = 3
"""Number of starting mixtures that are optimised."""


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
        weights: Mixture weights w with head = θ(w), shape (K,).
        gradient_norms: ‖∇L_e‖ at the head, L2 term included, shape (K,).
        check: The smallest combination of the domains' gradients: weights and a norm that is zero to rounding.
    """

    head: Array
    weights: Array
    gradient_norms: Array
    check: Combination

    @property
    def largest_gradient_norm(self) -> float:
        """The g of the bounds."""
        return float(self.gradient_norms.max())


def pareto_point(losses: DomainLosses, *, restarts: int = 8, seed: int = 0) -> ParetoPoint:
    r"""Minimise :math:`\max_e \|\nabla L_e(\theta(w))\|` over the simplex.

    The derivative is exact: :math:`\partial\theta/\partial w_f = -H_w^{-1} g_f` with :math:`H_w = \sum_e w_e H_e`.
    Sequential quadratic programming runs on the epigraph, from the best of the starts.

    Args:
        restarts: Random mixtures tried as starts, beside the balanced one and those that favour one domain; with 0
            only the balanced one.

    Example:
        >>> X = np.array([[1.0], [1.0]])
        >>> losses = DomainLosses(X, [0.0, 2.0], ["a", "b"], loss="squared_error", l2=1e-6, bias=False)
        >>> pareto_point(losses).gradient_norms.round(3)  # half-way between the two optima
        array([1., 1.])
    """
    check_count("restarts", restarts, 0)
    search = _Search(losses)
    number = len(losses)
    starts = [np.full(number, 1 / number)]
    if restarts:
        starts += [0.1 / number + 0.9 * row for row in np.eye(number)]
        starts += list(np.random.default_rng(seed).dirichlet(np.ones(number), restarts))
    starts.sort(key=lambda w: search.squares(w).max())
    for start in starts[:_DESCENTS]:
        search.descend(start)
    norms = search.squares(search.best) ** 0.5
    return ParetoPoint(search.best_head.numpy(), search.best, norms, pareto_check(losses, search.best_head))


def pareto_check(losses: DomainLosses, head: object) -> Combination:
    """Smallest combination of the domains' gradients at a head; its norm is zero if the head is Pareto optimal.

    Args:
        head: Shape (C, D).

    Returns:
        Weights on the simplex and the norm.
    """
    return smallest_combination(losses.gradient_gram(head))


class _Search:
    """Squared gradient norms and their derivatives over mixtures; caches the last mixture and keeps the best."""

    def __init__(self, losses: DomainLosses) -> None:
        self.losses = losses
        self.best, self.best_value = np.zeros(len(losses)), np.inf
        self.best_head = self._head = torch.zeros(losses.shape, dtype=torch.float64)
        self._last: tuple[Array, Array] | None = None

    def squares(self, mixture: Array) -> Array:
        """‖g_e(θ(w))‖² for each domain."""
        if self._last is None or not np.array_equal(self._last[0], mixture):
            # The step may leave the simplex by rounding; θ(w) does not change with the length of w.
            w = np.clip(mixture, 0, None)
            w = w / w.sum()
            self._head = mixture_minimizer(self.losses, torch.from_numpy(w), self._head)
            squares: Array = self.losses.gradients(self._head).square().sum((1, 2)).numpy()
            self._last = mixture.copy(), squares
            if squares.max() < self.best_value:
                self.best, self.best_value, self.best_head = w, float(squares.max()), self._head
        return self._last[1]

    def jacobian(self, mixture: Array) -> Array:
        """Derivative of the squares, (K, K): −2 (H_e g_e) · H_w⁻¹ g_f."""
        self.squares(mixture)
        losses, head = self.losses, self._head
        G = losses.gradients(head)
        mixed = WeightedLoss.mixture(losses, torch.from_numpy(np.clip(mixture, 0, None)))
        solved = mixed.solve(mixed.residuals(head), G)
        alone = [WeightedLoss.mixture(losses, row) for row in torch.eye(len(losses), dtype=torch.float64)]
        products = torch.stack([one.hessian_times(one.residuals(head), g) for one, g in zip(alone, G, strict=True)])
        derivative: Array = (-2 * products.flatten(1) @ solved.flatten(1).T).numpy()
        return derivative

    def descend(self, start: Array) -> None:
        """Minimise t over (w, t) with ‖g_e‖² ≤ t, in units of the largest square at the start."""
        number = len(start)
        scale = float(self.squares(start).max())
        if scale <= 1e-24:
            return
        minimize(
            lambda v: v[-1],
            np.append(start, 1.0),
            jac=lambda v: np.append(np.zeros(number), 1.0),
            method="SLSQP",
            bounds=[(0, 1)] * number + [(0, None)],
            constraints=[
                {"type": "eq", "fun": lambda v: v[:-1].sum() - 1, "jac": lambda v: np.append(np.ones(number), 0.0)},
                {
                    "type": "ineq",
                    "fun": lambda v: v[-1] - self.squares(v[:-1]) / scale,
                    "jac": lambda v: np.hstack([-self.jacobian(v[:-1]) / scale, np.ones((number, 1))]),
                },
            ],
            options={"maxiter": 100, "ftol": 1e-14},
        )
