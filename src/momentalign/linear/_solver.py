"""L-BFGS on a penalised objective, in float64 and in coordinates that suit it."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from sklearn.exceptions import ConvergenceWarning

from momentalign.linear._objective import PenalisedObjective
from momentalign.linear._precondition import Preconditioner, gauss_newton
from momentalign.linear._rows import Array

_SUBSET = 4096
"""Rows that a first look at a large fit takes, or twenty a feature."""


_LEG = 10
"""Iterations after which curvature is taken anew where the solver has arrived; twice as many each time."""


class Solution(NamedTuple):
    """A head (flattened), the objective there, and how it was reached."""

    head: Array
    value: float
    iterations: int
    converged: bool


def minimise(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    precondition: Callable[[Array], Preconditioner],
    *,
    tol: float,
    max_iter: int,
) -> Solution:
    """Minimise from `start` until no entry of the gradient exceeds `tol`.

    Args:
        objective: Value and gradient at a flattened head.
        start: Flattened head.
        precondition: Coordinates from the head that `objective` was evaluated at last.
        tol: Largest entry of the gradient by the head, as in scikit-learn's LogisticRegression.
        max_iter: Most iterations.

    Returns:
        The solution; not converged where iterations ran out.
    """
    value, gradient = objective(start)
    if np.abs(gradient).max() <= tol or max_iter < 1:
        return Solution(start, value, 0, bool(np.abs(gradient).max() <= tol))
    coordinates = precondition(start)
    slope = coordinates.back(gradient, gradient=True)
    # The solver's first trial step has length one. In these units that is the Newton step.
    unit = float(np.linalg.norm(slope)) or 1.0
    cached = (value, slope * unit)
    last: dict[str, Array] = {}

    def function(point: Array) -> tuple[float, Array]:
        if not last:  # the start has been evaluated
            last["gradient"] = gradient
            return cached
        value, last["gradient"] = objective(coordinates.back(point * unit))
        return value, coordinates.back(last["gradient"], gradient=True) * unit

    def stop(intermediate_result: OptimizeResult) -> None:
        if np.abs(last["gradient"]).max() <= tol:
            raise StopIteration

    result = minimize(
        function,
        coordinates.forward(start) / unit,
        jac=True,
        method="L-BFGS-B",
        callback=stop,
        # The gradient's size is judged by the head, in stop(); ftol is where float64 sees no more progress.
        options={"maxiter": max_iter, "maxls": 50, "gtol": 0.0, "ftol": 64 * np.finfo(float).eps, "maxcor": 20},
    )
    converged = bool(result.nit < max_iter or np.abs(last["gradient"]).max() <= tol)
    return Solution(coordinates.back(result.x * unit), float(result.fun), int(result.nit), converged)


def solve(objective: PenalisedObjective, start: Array, *, tol: float, max_iter: int) -> Solution:
    """Minimise a penalised objective from `start`; see :func:`minimise`."""
    head, iterations, leg = start, 0, _LEG
    while True:
        most = min(leg, max_iter - iterations)
        solution = minimise(objective, head, partial(gauss_newton, objective), tol=tol, max_iter=most)
        head, iterations, leg = solution.head, iterations + solution.iterations, 2 * leg
        if solution.converged or iterations >= max_iter:
            return solution._replace(iterations=iterations)


def solve_plain(objective: PenalisedObjective, *, tol: float, max_iter: int, start: Array | None = None) -> Solution:
    """Minimise without penalties; without a start, from zero, and a large fit first looks at some of its rows.

    Args:
        objective: Its weights are set to none.
        tol: As for :func:`solve`.
        max_iter: Most iterations.
        start: Flattened head, or None.

    Returns:
        The solution, with the iterations over all rows.
    """
    objective.set_weights({})
    if start is None:
        start = np.zeros(objective.shape[0] * objective.shape[1])
        subset = objective.subset(max(_SUBSET, 20 * objective.shape[1]))
        if subset is not None:
            start = solve(subset, start, tol=tol, max_iter=max_iter).head
    return solve(objective, start, tol=tol, max_iter=max_iter)


def warn_if_stopped(converged: bool, max_iter: int) -> None:
    """Say that iterations ran out, in the words that scikit-learn's users know."""
    if not converged:
        warnings.warn(
            f"The solver stopped after max_iter={max_iter} iterations before its gradient came below 'tol'. "
            "Raise max_iter, or scale the features (StandardScaler).",
            ConvergenceWarning,
            stacklevel=4,
        )
