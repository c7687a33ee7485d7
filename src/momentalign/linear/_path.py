"""Fits over a grid of weights, each started at the solution of the nearest one before it."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from momentalign._types import Array, Integers
from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear._alignment_objective import AlignmentObjective
from momentalign.linear._head import LinearHead
from momentalign.linear._least_squares import AlignedLeastSquares
from momentalign.linear._objective import Objective
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Solution, ValueAndGradient, solve, warn_if_stopped
from momentalign.penalties import term_name

HeadCallback = Callable[[float, Array], None]
"""Called with value and head after every evaluation that is lower than all before it."""

_SUBSET = 4096
"""Rows of the subset that a large fit without penalties starts on, or twenty per feature."""


def solve_path(
    objective: Objective,
    settings: Sequence[Mapping[str, float]],
    *,
    l2: Sequence[float] | None = None,
    tol: float,
    max_iter: int,
    watch: HeadCallback | None = None,
    tick: Callable[[], None] | None = None,
) -> list[Solution]:
    """Minimise an objective for every setting of its weights.

    The fit without penalties comes first, once for each L2; the settings follow from the smallest to the largest, each
    from the solution of the nearest one before it. A setting takes a few evaluations that way.

    Args:
        objective: Its weights and L2 are changed.
        settings: Weight of each term by its name.
        l2: L2 of each setting; None takes the objective's for all.
        tol: Largest entry of the gradient at a solution.
        max_iter: Maximum number of iterations of a setting, and of the fit without penalties.
        watch: Called with intermediate heads; the fit without penalties then starts from zero with all rows.
        tick: Called after each setting.

    Returns:
        A solution for each setting, in their order, its iterations with those of the fit without penalties.
    """
    l2s = [objective.l2] * len(settings) if l2 is None else list(l2)
    limits: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    solved: list[tuple[Mapping[str, float], float, Array]] = []

    def fit(setting: Mapping[str, float], value: float) -> Solution:
        if solved:
            start = min(solved, key=lambda other: _distance(other[:2], (setting, value)))[2]
        else:
            start = np.zeros(math.prod(objective.shape))
            subset = None if watch is not None else objective.subset(max(_SUBSET, 20 * objective.shape[1]))
            if subset is not None:
                start = solve(subset, start, subset.coordinates, **limits).head
        solution = solve(_watched(objective, watch), start, objective.coordinates, **limits)
        solved.append((setting, value, solution.head))
        return solution

    plain: dict[float, Solution] = {}
    for objective.l2 in sorted(set(l2s), reverse=True):  # from the smallest head to the largest
        objective.set_weights({})
        plain[objective.l2] = fit({}, objective.l2)
    solutions: dict[int, Solution] = {}
    for index in sorted(range(len(settings)), key=lambda index: (sum(settings[index].values()), -l2s[index])):
        objective.l2 = l2s[index]
        objective.set_weights(settings[index])
        solutions[index] = before = plain[objective.l2]
        if objective.weights:
            found = fit(settings[index], objective.l2)
            solutions[index] = found._replace(
                iterations=before.iterations + found.iterations, converged=before.converged and found.converged
            )
        if tick is not None:
            tick()
    return [solutions[index] for index in range(len(settings))]


def fit_head(
    features: NDArray[np.floating],
    targets: NDArray[Any],
    domains: Integers | None = None,
    order_weights: Mapping[int, float] | None = None,
    **options: Any,
) -> LinearHead:
    r"""Fit one linear model: :func:`fit_path` for a single setting.

    Args:
        features: Shape (n, d).
        targets: As :func:`fit_path` takes them.
        domains: Any integers, shape (n,); None is one domain.
        order_weights: Weight of each order, `{1: w1, 2: w2}`; None aligns nothing.
        **options: Those of :func:`fit_path`.

    Returns:
        The head.

    Example:
        >>> features, targets = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
        >>> head = fit_head(features, targets, np.array([0, 1, 0, 1]), {1: 1.0}, l2=0.1)
        >>> head.coef.shape, head.converged
        ((1, 1), True)
        >>> head = fit_head(features[:3], np.array([[1.0], [3.0], [5.0]]), loss="squared_error", l2=0.0)
        >>> head.coef.round(6).item(), head.intercept.round(6).item()
        (2.0, 1.0)
    """
    return fit_path(features, targets, domains, [order_weights or {}], **options)[0]


def fit_path(
    features: NDArray[np.floating],
    targets: NDArray[Any],
    domains: Integers | None,
    order_weights: Sequence[Mapping[int, float]],
    *,
    classes: int | None = None,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float | Sequence[float] = 1e-3,
    scaling: str = "relative",
    loss: str = "cross_entropy",
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> list[LinearHead]:
    r"""Fit a linear model for every setting of the alignment weights; see :func:`solve_path`.

    Regressions read the rows once; each setting costs a few products of d × d.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,); for the squared error real numbers, shape (n, o).
        domains: Any integers, shape (n,); None is one domain.
        order_weights: A dictionary `{1: w1, 2: w2}` for each setting; the squared error has order 1 alone.
        classes: C, where the targets do not contain the last class.
        sample_weight: Weight of each row in its domain's mean, shape (n,).
        l2: Weight of half the squared norm of the coefficients: one for all settings, or one for each.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`.
        loss: `"cross_entropy"` or `"squared_error"`.
        bias: Whether the head has one.
        tol: Largest entry of the gradient at a solution, for the squared error relative to that at zero.
        max_iter: Maximum number of iterations of each setting, and of the fit without penalties.

    Returns:
        A head for each setting, in their order.

    Example:
        >>> features, targets = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
        >>> heads = fit_path(features, targets, np.array([0, 1, 0, 1]), [{}, {1: 1.0}, {1: 10.0}], l2=0.1)
        >>> [head.coef.round(2).item() for head in heads]
        [1.51, 1.01, 0.55]
    """
    check_choice("scaling", scaling, SCALINGS)
    check_choice("loss", loss, ("cross_entropy", "squared_error"))
    check_count("max_iter", max_iter, 1)
    settings = [
        {order: check_weight(f"order_weights[{order}]", weight) for order, weight in setting.items()}
        for setting in order_weights
    ]
    orders = (1,) if loss == "squared_error" else (1, 2)
    if unknown := {order for setting in settings for order in setting} - {*orders}:
        raise ValueError(f"'order_weights' should have orders {orders} for loss '{loss}', but has {min(unknown)}.")
    l2s = [check_weight("l2", value) for value in (l2 if isinstance(l2, Sequence) else [l2] * len(settings))]
    if len(l2s) != len(settings):
        raise ValueError(f"'l2' should be a number, or one for each of {len(settings)} settings, but has {len(l2s)}.")
    # Shapes alone: values are the caller's to check.
    check_array(features, dtype=None, ensure_all_finite=False)
    check_consistent_length(features, targets, domains, sample_weight)
    if loss == "squared_error":
        rows = SortedRows.sort(features, targets.astype(np.float64), domains, sample_weight, bias=bias)
        squares = AlignedLeastSquares(rows, scaling=scaling)
        shape, solutions = squares.shape, []
        for setting, value in zip(settings, l2s, strict=True):
            squares.set_weights(setting.get(1, 0.0), value)
            solutions.append(squares.fit(tol=tol, max_iter=max_iter))
    else:
        number = max(int(targets.max()) + 1, 2) if classes is None else classes
        rows = SortedRows.sort(features, targets, domains, sample_weight, bias=bias)
        objective = AlignmentObjective(rows, number, l2=0.0, scaling=scaling)
        named = [{term_name(order): weight for order, weight in setting.items()} for setting in settings]
        shape, solutions = objective.shape, solve_path(objective, named, l2=l2s, tol=tol, max_iter=max_iter)
    warn_if_stopped(all(solution.converged for solution in solutions), max_iter)
    return [LinearHead.of(solution, shape, bias=bias) for solution in solutions]


def _watched(objective: Objective, watch: HeadCallback | None) -> ValueAndGradient:
    """The objective with a callback for every value below those before it."""
    if watch is None:
        return objective
    lowest = math.inf

    def function(head: Array) -> tuple[float, Array]:
        nonlocal lowest
        value, gradient = objective(head)
        if value < lowest:
            lowest = value
            watch(value, head.copy())
        return value, gradient

    return function


def _distance(one: tuple[Mapping[str, float], float], other: tuple[Mapping[str, float], float]) -> float:
    """Distance of two settings: weights in decades above a thousandth, and L2 in decades above a millionth."""
    (weights, l2), (others, other_l2) = one, other
    pairs = [(weights.get(name, 0.0) + 1e-3, others.get(name, 0.0) + 1e-3) for name in {*weights, *others}]
    return sum(abs(math.log10(a / b)) for a, b in [*pairs, (l2 + 1e-6, other_l2 + 1e-6)])
