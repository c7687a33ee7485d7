r"""The head :math:`\theta^*` around which the bounds are taken.

For convex losses a head is weakly Pareto optimal where 0 lies in the convex hull of the domains' gradients, and every
such head is :math:`\theta(w) = \arg\min \sum_e w_e L_e` for some w in the simplex. Among them :math:`\theta^*` has the
smallest largest gradient norm.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from momentalign._validation import check_count
from momentalign.theory._inputs import Floats
from momentalign.theory._losses import DomainLosses
from momentalign.theory._newton import WeightedLoss, mixture_minimizer
from momentalign.theory._simplex import Combination, smallest_combination

_DESCENTS = 3
"""How many of the starting mixtures are followed down."""


@dataclass(frozen=True, eq=False)
class ParetoPoint:
    """A weakly Pareto-optimal head with the smallest largest gradient norm that was found.

    The problem over the mixture weights is smooth but not convex: with several starts it is solved reliably, yet
    without a certificate. That the head is weakly Pareto optimal is certified by `check`.

    Attributes:
        head: Shape (C, D), the bias last.
        weights: Mixture weights w with head = θ(w), shape (K,).
        gradient_norms: ‖∇L_e‖ at the head, the L2 term included, shape (K,).
        check: The smallest combination of the domains' gradients: weights and a norm that is zero to rounding.
    """

    head: Floats
    weights: Floats
    gradient_norms: Floats
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
        losses: The domains' losses.
        restarts: Random mixtures tried as starts beside the balanced one and those that favour one domain; with 0
            the balanced one alone.
        seed: Of the random mixtures.

    Returns:
        The point.

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
        _descend(search, start)
    gram = losses.gradient_gram(search.best_head)
    norms = search.squares(search.best) ** 0.5
    return ParetoPoint(search.best_head.numpy(), search.best, norms, smallest_combination(gram))


def pareto_check(losses: DomainLosses, head: object) -> Combination:
    """The smallest combination of the domains' gradients at a head: its norm is zero where the head is Pareto optimal.

    Args:
        losses: The domains' losses.
        head: Shape (C, D).

    Returns:
        Weights on the simplex and the norm.
    """
    return smallest_combination(losses.gradient_gram(head))


class _Search:
    """Squared gradient norms and their derivatives over mixtures; remembers the last mixture and the best."""

    def __init__(self, losses: DomainLosses) -> None:
        self.losses = losses
        self.best, self.best_value = np.zeros(len(losses)), np.inf
        self.best_head = self._head = torch.zeros(losses.shape, dtype=torch.float64)
        self._last: tuple[Floats, Floats] | None = None

    def squares(self, mixture: Floats) -> Floats:
        """‖g_e(θ(w))‖² for each domain."""
        if self._last is None or not np.array_equal(self._last[0], mixture):
            # The step may leave the simplex by rounding; θ(w) does not change with the length of w.
            w = np.clip(mixture, 0, None)
            w = w / w.sum()
            self._head = mixture_minimizer(self.losses, torch.from_numpy(w), self._head)
            squares: Floats = self.losses.gradients(self._head).square().sum((1, 2)).numpy()
            self._last = mixture.copy(), squares
            if squares.max() < self.best_value:
                self.best, self.best_value, self.best_head = w, float(squares.max()), self._head
        return self._last[1]

    def jacobian(self, mixture: Floats) -> Floats:
        """Derivative of the squares, (K, K): −2 (H_e g_e) · H_w⁻¹ g_f."""
        self.squares(mixture)
        losses, head = self.losses, self._head
        G = losses.gradients(head)
        mixed = WeightedLoss.mixture(losses, torch.from_numpy(np.clip(mixture, 0, None)))
        solved = mixed.solve(mixed.residuals(head), G)
        products = torch.stack([self._hessian_times(e, head, g) for e, g in enumerate(G)])
        found: Floats = (-2 * products.flatten(1) @ solved.flatten(1).T).numpy()
        return found

    def _hessian_times(self, domain: int, head: Tensor, vector: Tensor) -> Tensor:
        one = WeightedLoss.mixture(self.losses, torch.eye(len(self.losses), dtype=torch.float64)[domain])
        return one.hessian_times(one.residuals(head), vector)


def _descend(search: _Search, start: Floats) -> None:
    """Follow one start down: minimise t over (w, t) with ‖g_e‖² ≤ t, in units of the largest norm at the start."""
    number = len(start)
    scale = float(search.squares(start).max())
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
                "fun": lambda v: v[-1] - search.squares(v[:-1]) / scale,
                "jac": lambda v: np.hstack([-search.jacobian(v[:-1]) / scale, np.ones((number, 1))]),
            },
        ],
        options={"maxiter": 100, "ftol": 1e-14},
    )
