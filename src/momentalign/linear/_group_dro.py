r"""Group DRO of a linear head: domains weighted by their losses.

.. math:: \min_\theta\max_{q\in\Delta} \sum_e q_e L_e(\theta) + \tfrac{\lambda}{2}\|\theta\|^2

The published method moves q by exponentiated weights, :math:`q_e \propto q_e\exp(\eta L_e)`, while SGD moves the head:
:class:`GroupWeights`. The full-batch solver solves for the head at every q. The value at q is concave, with the losses
as its gradient, and SLSQP maximises it: the saddle point, which is the same for every η. The solver stops when the
duality gap, the worst loss less the weighted one, is below a tolerance.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from momentalign._types import Array, Integers
from momentalign.linear._head import LinearHead
from momentalign.linear._objective import Objective
from momentalign.linear._path import HeadCallback, solve_path
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Solution, solve, warn_if_stopped


def solve_group_dro(
    rows: SortedRows, classes: int, *, l2: float, tol: float, max_iter: int, watch: HeadCallback | None = None
) -> tuple[Solution, Array]:
    """Minimise the worst domain's loss; returns the solution, whose iterations are moves of q, and q (K,).

    `tol` is the duality gap relative to the loss of a head of zeros; `watch` is called with the worst loss and the head
    after every move.
    """
    objective = Objective(rows, classes, l2=l2)
    zero = np.zeros(objective.shape[0] * objective.shape[1])
    # Finer than elsewhere: the domains' losses move by the first order of what is left of the gradient, not the second.
    size, gap = 1e-3 * tol * float(np.abs(objective(zero)[1]).max()), tol * float(np.log(classes))
    q, moves = np.full(rows.number, 1.0 / rows.number), 0
    (solution,) = solve_path(objective, [{}], tol=size, max_iter=max_iter)
    losses = objective.domain_losses(solution.head)

    def negative_value(weights: Array) -> tuple[float, Array]:
        """Minus the least objective at fixed weights of the domains, e weighing q_e instead of 1/K."""
        nonlocal q, solution, losses, moves
        q, moves = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum(), moves + 1
        weighted = Objective(replace(rows, shares=rows.shares * np.repeat(q * rows.number, rows.sizes)), classes, l2=l2)
        solution = solve(weighted, solution.head, weighted.coordinates, tol=size, max_iter=max_iter)
        losses = objective.domain_losses(solution.head)
        if losses.max() - q @ losses <= gap:
            raise StopIteration
        return -solution.value, -losses

    def report(*_: Array) -> None:
        if watch is not None:
            watch(float(losses.max()), solution.head)

    report()
    if losses.max() - q @ losses > gap:
        with suppress(StopIteration):
            minimize(
                negative_value,
                q,
                jac=True,
                method="SLSQP",
                bounds=[(0.0, 1.0)] * rows.number,
                constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1.0, "jac": np.ones_like},
                callback=report,
                # Near the maximum the value changes by the square of the gap, which is what ends the search.
                options={"maxiter": max_iter, "ftol": 1e-10 * gap},
            )
        report()
    return Solution(solution.head, float(losses.max()), moves, bool(losses.max() - q @ losses <= gap)), q


def fit_group_dro(
    features: NDArray[np.floating],
    targets: Integers,
    groups: Integers,
    *,
    classes: int,
    l2: float,
    sample_weight: NDArray[np.floating] | None = None,
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> tuple[LinearHead, Array]:
    """Fit a head by :func:`solve_group_dro`; returns it with q (G,), in the order of the groups' integers.

    `sample_weight` (n,) weighs the rows within their group.
    """
    rows = SortedRows.sort(features, targets, groups, sample_weight, bias=bias)
    solution, q = solve_group_dro(rows, classes, l2=l2, tol=tol, max_iter=max_iter)
    warn_if_stopped(solution.converged, max_iter)
    shape = (1 if classes == 2 else classes, rows.X.shape[1])
    # The first fit, with equal weights, counts as a move.
    return LinearHead.of(solution._replace(iterations=solution.iterations + 1), shape, bias=bias), q


class GroupWeights:
    """Weights of the domains in the loss of a mini-batch, updated before every step.

    Args:
        eta: η.
        num_domains: Domains are 0 … num_domains − 1.
    """

    def __init__(self, eta: float, num_domains: int) -> None:
        self.eta = eta
        self.q = torch.full((num_domains,), 1.0 / num_domains, dtype=torch.float64)

    def __call__(self, losses: Tensor, domains: Tensor) -> Tensor:
        """Weighted loss of a batch, from the losses (n,) and domains (n,) of its rows."""
        sizes = torch.bincount(domains, minlength=len(self.q))
        means = torch.zeros_like(self.q).index_add(0, domains, losses) / sizes.clamp(min=1)
        # A domain without rows in the batch keeps its weight: exp(0).
        self.q = self.q * (self.eta * means.detach()).exp()
        self.q = self.q / self.q.sum()
        return self.q @ means
