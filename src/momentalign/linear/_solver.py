"""L-BFGS on a penalised objective, in float64 and in coordinates that suit it."""

import math
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

Function = Callable[[Array], tuple[float, Array]]
"""Value and gradient at a flattened head."""

Coordinates = Callable[[Array], Preconditioner]
"""Coordinates from the head that a function was evaluated at last."""

_SUBSET = 4096
"""Rows that a first look at a large fit takes, or twenty a feature."""

_LEG = 10
"""Iterations after which curvature is taken anew where the solver has arrived; twice as many each time."""

_ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Part of a value that float64 does not tell from none."""

_LITTLE = 1e-8
"""Part of a value that curvature may promise of a step, and no step gain, at a solution."""

_SHORTEST = math.sqrt(np.finfo(np.float64).tiny)


class Solution(NamedTuple):
    """A head (flattened), the objective there, and how it was reached.

    Converged says that no entry of the gradient exceeds the tolerance, or that float64 sees nothing left to gain: in
    coordinates taken anew no step lowers the value by more than its rounding, and curvature promises less than 1e-8 of
    it. Where iterations ran out, or steps failed though more was promised, it is not.
    """

    head: Array
    value: float
    iterations: int
    converged: bool


def minimise(function: Function, start: Array, coordinates: Coordinates, *, tol: float, max_iter: int) -> Solution:
    """Minimise from `start` until no entry of the gradient exceeds `tol` or a step gains nothing.

    Args:
        function: Value and gradient at a flattened head.
        start: Flattened head.
        coordinates: Coordinates from the head that `function` was evaluated at last.
        tol: Largest entry of the gradient by the head, as in scikit-learn's LogisticRegression.
        max_iter: Most iterations.

    Returns:
        The solution; not converged where it stopped on its way, and new coordinates may help.
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


def solve(function: Function, start: Array, coordinates: Coordinates, *, tol: float, max_iter: int) -> Solution:
    """Minimise from `start`, with the coordinates taken anew where the solver has arrived.

    Args:
        function: Value and gradient at a flattened head.
        start: Flattened head.
        coordinates: Coordinates from the head that `function` was evaluated at last.
        tol: Largest entry of the gradient by the head.
        max_iter: Most iterations.

    Returns:
        The solution; not converged where iterations ran out, or new coordinates gained nothing.
    """
    head, value, iterations, leg = start, math.inf, 0, _LEG
    while True:
        most = min(leg, max_iter - iterations)
        found = minimise(function, head, coordinates, tol=tol, max_iter=most)
        iterations += found.iterations
        if found.converged or iterations >= max_iter or not _lower(found.value, value):
            return found._replace(iterations=iterations)
        head, value, leg = found.head, found.value, 2 * leg


def _lower(value: float, before: float) -> bool:
    """Whether a value is lower than another by more than rounding."""
    return value < before - _ROUNDING * abs(value)


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
            start = solve(subset, start, partial(gauss_newton, subset), tol=tol, max_iter=max_iter).head
    return solve(objective, start, partial(gauss_newton, objective), tol=tol, max_iter=max_iter)


def warn_if_stopped(converged: bool, max_iter: int) -> None:
    """Say that the solver has not arrived, in the words that scikit-learn's users know."""
    if not converged:
        warnings.warn(
            "The solver stopped before its gradient came below 'tol': it ran out of "
            f"max_iter={max_iter} iterations, or found no step that lowers the objective. "
            "Raise max_iter or tol, or scale the features (StandardScaler).",
            ConvergenceWarning,
            stacklevel=4,
        )
