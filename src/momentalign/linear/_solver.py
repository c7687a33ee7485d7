r"""Preconditioned L-BFGS in float64.

The solver moves in R·head, with R the Cholesky factor of the curvature P = R'R at the start: there the objective is
nearly round, and few steps are needed.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import OptimizeResult, minimize
from sklearn.exceptions import ConvergenceWarning

from momentalign._errors import warn_user
from momentalign._types import Array

ValueAndGradient = Callable[[Array], tuple[float, Array]]
"""Value and gradient at a flattened head."""

_LEG = 10
"""Iterations before the coordinates are computed again; twice as many each time."""

_ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Relative difference of two values that counts as rounding."""

_LITTLE = 1e-8
"""Relative decrease that the curvature may still predict at a solution, where no step achieves it."""

_SHORTEST = math.sqrt(np.finfo(np.float64).tiny)


class Preconditioner:
    """Change of coordinates to R·head with R'R = P.

    Args:
        P: Curvature: a matrix over the flattened head, or over the features, for all logits; or a diagonal.
    """

    def __init__(self, P: Array) -> None:
        # Constant columns have no curvature without L2: a little keeps R regular, and their gradient is 0.
        least = 1e-10 * float((P if P.ndim == 1 else P.diagonal()).mean()) + np.finfo(float).tiny
        self._R: Array = np.sqrt(P + least) if P.ndim == 1 else cholesky(P + least * np.eye(len(P)))

    def back(self, point: Array, *, gradient: bool = False) -> Array:
        """Map a point to its head; or a gradient by the head to the gradient by the point."""
        V = point.reshape(-1, len(self._R))
        if self._R.ndim == 1:
            return np.divide(V, self._R).ravel()
        solved: Array = solve_triangular(self._R, V.T, trans=int(gradient), check_finite=False)
        return solved.T.ravel()


Coordinates = Callable[[Array], Preconditioner]
"""Coordinates from the head that a function was evaluated at last."""


class Solution(NamedTuple):
    """A flattened head, the objective there, and how it was reached.

    Converged means that no entry of the gradient exceeds the tolerance, or that nothing is left to gain in float64: in
    new coordinates no step lowers the value by more than its rounding, and the curvature predicts a relative decrease
    below 1e-8. A solver that ran out of iterations, or whose steps failed though more was predicted, has not converged.
    """

    head: Array
    value: float
    iterations: int
    converged: bool


def minimise(
    function: ValueAndGradient, start: Array, coordinates: Coordinates, *, tol: float, max_iter: int
) -> Solution:
    """Minimise from `start` until no entry of the gradient exceeds `tol` or a step gains nothing.

    `tol` is the largest entry of the gradient by the head, as in scikit-learn's LogisticRegression. A solution that has
    not converged stopped on its way, and new coordinates may help.
    """
    value, gradient = function(start)
    if np.abs(gradient).max() <= tol or max_iter < 1:
        return Solution(start, value, 0, bool(np.abs(gradient).max() <= tol))
    chosen = coordinates(start)
    # The solver's first trial step has length one. In these units that is the Newton step.
    unit = max(float(np.linalg.norm(chosen.back(gradient, gradient=True))), _SHORTEST)
    tried = reached = (start, value, gradient)

    # Points are steps from the start: added to the head itself, a short one would be lost in rounding.
    def scaled(point: Array) -> tuple[float, Array]:
        nonlocal tried
        if point.any():  # the start has been evaluated
            head = start + chosen.back(point * unit)
            tried = (head, *function(head))
        return tried[1] / unit**2, chosen.back(tried[2], gradient=True) / unit

    def stop(intermediate_result: OptimizeResult) -> None:
        nonlocal reached
        before, reached = reached, tried
        if np.abs(reached[2]).max() <= tol or not _lower(reached[1], before[1]):
            raise StopIteration

    result = minimize(
        scaled,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        callback=stop,
        # The gradient's size and the value's progress are judged in stop(), by the head.
        options={"maxiter": max_iter, "maxls": 50, "gtol": 0.0, "ftol": 0.0, "maxcor": 20},
    )
    nothing_left = not _lower(reached[1], value) and 0.5 * unit**2 <= _LITTLE * abs(value)
    converged = nothing_left or bool(np.abs(reached[2]).max() <= tol)
    return Solution(reached[0], reached[1], int(result.nit), converged)


def solve(function: ValueAndGradient, start: Array, coordinates: Coordinates, *, tol: float, max_iter: int) -> Solution:
    """Minimise from `start`, with new coordinates every few iterations, until they gain nothing."""
    head, value, iterations, leg = start, math.inf, 0, _LEG
    while True:
        most = min(leg, max_iter - iterations)
        solution = minimise(function, head, coordinates, tol=tol, max_iter=most)
        iterations += solution.iterations
        if solution.converged or iterations >= max_iter or not _lower(solution.value, value):
            return solution._replace(iterations=iterations)
        head, value, leg = solution.head, solution.value, 2 * leg


def _lower(value: float, before: float) -> bool:
    """Whether a value is lower than another by more than rounding."""
    return value < before - _ROUNDING * abs(value)


def warn_if_stopped(converged: bool, max_iter: int) -> None:
    """Warn as scikit-learn does about a solver that has not converged."""
    if not converged:
        warn_user(
            "The solver stopped before its gradient came below 'tol': it ran out of "
            f"max_iter={max_iter} iterations, or found no step that lowers the objective. "
            "Raise max_iter or tol, or scale the features (StandardScaler).",
            ConvergenceWarning,
        )
