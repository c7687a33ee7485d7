r"""Group DRO brought to its end: the head whose worst domain has the least loss.

.. math:: \min_\theta\max_{q\in\Delta} \sum_e q_e L_e(\theta) + \tfrac{\lambda}{2}\|\theta\|^2

The published method moves q by exponentiated weights, :math:`q_e \propto q_e\exp(\eta L_e)`, while SGD moves the head.
Here the head is solved for at every q, and q moves by the same rule with a step that grows while the value rises and
shrinks where it does not. The value at q is concave, so this ends at the saddle point, which is the same for every η.
It has arrived when the worst loss exceeds the weighted one, the duality gap, by no more than a tolerance.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from momentalign.linear import PenalisedObjective, Rows
from momentalign.linear._precondition import gauss_newton
from momentalign.linear._solver import Solution, solve, solve_plain
from momentalign.probing._path import Watch

Array = NDArray[np.float64]


def solve_minimax(
    rows: Rows, classes: int, *, l2: float, tol: float, max_iter: int, watch: Watch | None = None
) -> tuple[Solution, Array]:
    """Minimise the worst domain's loss.

    Args:
        rows: Training rows.
        classes: Number of classes.
        l2: Weight of half the squared norm of the head.
        tol: Duality gap relative to the loss of a head of zeros.
        max_iter: Most moves of q.
        watch: Sees the worst loss and the head after every move that is kept.

    Returns:
        The solution, whose iterations are moves of q, and q itself, shape (K,).
    """
    objective = PenalisedObjective(rows, classes, {}, l2=l2)
    zero = np.zeros(objective.shape[0] * objective.shape[1])
    # Finer than elsewhere: the domains' losses move by the first order of what is left of the gradient, not the second.
    size, gap = 1e-3 * tol * float(np.abs(objective(zero)[1]).max()), tol * float(np.log(classes))
    q = np.full(rows.number, 1.0 / rows.number)
    head = solve_plain(objective, tol=size, max_iter=max_iter).head
    losses = domain_losses(objective, head)
    step = 1.0 / float(np.log(classes))
    if watch is not None:
        watch(float(losses.max()), head)
    for iteration in range(max_iter):
        if losses.max() - q @ losses <= gap:
            return Solution(head, float(losses.max()), iteration, True), q
        trial = q * np.exp(step * (losses - losses.max()))
        trial /= trial.sum()
        weighted = _weighted(rows, trial, classes, l2)
        found = solve(weighted, head, partial(gauss_newton, weighted), tol=size, max_iter=max_iter)
        found_losses = domain_losses(objective, found.head)
        # Concave along the move: the slope's sign at its end says whether the top has been passed.
        ahead = float((trial - q) @ found_losses)
        if ahead >= -0.5 * abs(float((trial - q) @ losses)):
            q, head, losses, step = trial, found.head, found_losses, step * 2.0
            if watch is not None:
                watch(float(losses.max()), head)
        else:
            step *= 0.25
    return Solution(head, float(losses.max()), max_iter, False), q


def domain_losses(objective: PenalisedObjective, head: Array) -> Array:
    """Mean loss of each domain, shape (K,)."""
    rows, W = objective.rows, head.reshape(objective.shape)
    losses = np.zeros(rows.number)
    for domain, block in rows.blocks():
        state = objective.loss.state(rows.X[block] @ W.T, rows.targets[block])
        losses[domain] += rows.shares[block] @ state.losses
    return losses


def _weighted(rows: Rows, q: Array, classes: int, l2: float) -> PenalisedObjective:
    """The objective in which domain e weighs q_e instead of 1/K."""
    shares = rows.shares * np.repeat(q * rows.number, np.diff(rows.starts))
    return PenalisedObjective(replace(rows, shares=shares), classes, {}, l2=l2)
