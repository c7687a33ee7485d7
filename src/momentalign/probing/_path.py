"""The converged solver: fits over a grid of weights, each started where the nearest one ended."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from momentalign.linear._path import weight_distance
from momentalign.linear._solver import Function, Solution, solve_plain
from momentalign.linear._solver import solve as solve_function
from momentalign.probing._objectives import Objective

Array = NDArray[np.float64]
Weights = Mapping[str, float]
Watch = Callable[[float, Array], None]
"""Told the value and the head after every pass over the rows that got lower than all before it."""


def solve_path(
    objective: Objective,
    settings: Sequence[Weights],
    *,
    tol: float,
    max_iter: int,
    watch: Watch | None = None,
    tick: Callable[[], None] | None = None,
) -> list[Solution]:
    """Fit every setting of the weights.

    The fit without penalties comes first: that is annealing. The settings follow from the smallest to the largest, each
    from the solution of the nearest one before it.

    Args:
        objective: Loss and penalties.
        settings: Weight of each term by its name.
        tol: Largest entry of the gradient at a solution, relative to that at zero without penalties.
        max_iter: Most iterations of a fit.
        watch: Sees the heads on the way.
        tick: Called after each setting.

    Returns:
        A solution for each setting, in their order.
    """
    zero = np.zeros(objective.plain.shape[0] * objective.plain.shape[1])
    size = tol * float(np.abs(objective.plain(zero)[1]).max())
    if watch is None:
        plain = solve_plain(objective.plain, tol=size, max_iter=max_iter)
    else:
        objective.set_weights({})
        plain = solve(objective, zero, tol=size, max_iter=max_iter, watch=watch)
    solved: list[tuple[Weights, Array]] = [({}, plain.head)]
    solutions: dict[int, Solution] = {}
    for index in sorted(range(len(settings)), key=lambda index: sum(settings[index].values())):
        setting, found = settings[index], plain
        if any(setting.values()):
            objective.set_weights(setting)
            start = min(solved, key=lambda other: weight_distance(other[0], setting))[1]
            found = solve(objective, start, tol=size, max_iter=max_iter, watch=watch)
            solved.append((setting, found.head))
        solutions[index] = found._replace(converged=plain.converged and found.converged)
        if tick is not None:
            tick()
    return [solutions[index] for index in range(len(settings))]


def solve(objective: Objective, start: Array, *, tol: float, max_iter: int, watch: Watch | None = None) -> Solution:
    """Minimise from `start`; see :func:`momentalign.linear._solver.solve`."""
    function = objective if watch is None else _watched(objective, watch)
    return solve_function(function, start, objective.coordinates, tol=tol, max_iter=max_iter)


def _watched(objective: Objective, watch: Watch) -> Function:
    lowest = math.inf

    def function(head: Array) -> tuple[float, Array]:
        nonlocal lowest
        value, gradient = objective(head)
        if value < lowest:
            lowest = value
            watch(value, head.copy())
        return value, gradient

    return function
