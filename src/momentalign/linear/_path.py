"""Fits over a grid of weights, each started at the solution of the nearest one before it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array, Integers
from momentalign._validation import SCALINGS, check_choice, check_column, check_count, check_weight
from momentalign.linear._alignment_objective import AlignmentObjective
from momentalign.linear._head import LinearHead
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
    plain: dict[float, Solution] = {}
    for value in sorted(set(l2s), reverse=True):
        # From the smallest head to the largest: the last solution is nearer than zero is.
        objective.l2, start = value, plain[min(plain)].head if plain else np.zeros(math.prod(objective.shape))
        objective.set_weights({})
        subset = None if plain or watch is not None else objective.subset(max(_SUBSET, 20 * objective.shape[1]))
        if subset is not None:
            start = solve(subset, start, subset.coordinates, **limits).head
        plain[value] = solve(_watched(objective, watch), start, objective.coordinates, **limits)
    solved: list[tuple[Mapping[str, float], float, Array]] = [({}, value, plain[value].head) for value in plain]
    solutions: dict[int, Solution] = {}
    for index in sorted(range(len(settings)), key=lambda index: (sum(settings[index].values()), -l2s[index])):
        setting, objective.l2 = settings[index], l2s[index]
        objective.set_weights(setting)
        solutions[index] = before = plain[objective.l2]
        if objective.weights:
            here = (setting, objective.l2)
            start = min(solved, key=lambda other: _distance(other[:2], here))[2]
            solution = solve(_watched(objective, watch), start, objective.coordinates, **limits)
            solved.append((*here, solution.head))
            solutions[index] = solution._replace(
                iterations=before.iterations + solution.iterations, converged=before.converged and solution.converged
            )
        if tick is not None:
            tick()
    return [solutions[index] for index in range(len(settings))]


def fit_head(
    features: NDArray[np.floating],
    targets: Integers,
    domains: Integers | None = None,
    order_weights: Mapping[int, float] | None = None,
    **options: Any,
) -> LinearHead:
    r"""Fit one linear classifier: :func:`fit_path` for a single setting.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
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
    """
    return fit_path(features, targets, domains, [order_weights or {}], **options)[0]


def fit_path(
    features: NDArray[np.floating],
    targets: Integers,
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
    r"""Fit a linear classifier for every setting of the alignment weights; see :func:`solve_path`.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        domains: Any integers, shape (n,); None is one domain.
        order_weights: A dictionary `{1: w1, 2: w2}` for each setting.
        classes: C, where the targets do not contain the last class.
        sample_weight: Weight of each row in its domain's mean, shape (n,).
        l2: Weight of half the squared norm of the coefficients: one for all settings, or one for each.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`.
        loss: `"cross_entropy"`, or `"logistic"`: two classes whose derivatives are those of one logit.
        bias: Whether the head has one.
        tol: Largest entry of the gradient at a solution.
        max_iter: Maximum number of iterations of each setting, and of the fit without penalties.

    Returns:
        A head for each setting, in their order.

    Example:
        >>> features, targets = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
        >>> heads = fit_path(features, targets, np.array([0, 1, 0, 1]), [{}, {1: 1.0}, {1: 10.0}], l2=0.1)
        >>> [head.order_weights for head in heads]
        [{}, {1: 1.0}, {1: 10.0}]
    """
    check_choice("scaling", scaling, SCALINGS)
    check_choice("loss", loss, ("cross_entropy", "logistic"))
    check_count("max_iter", max_iter, 1)
    orders = [
        {order: check_weight(f"order_weights[{order}]", weight) for order, weight in setting.items()}
        for setting in order_weights
    ]
    if unknown := {order for setting in orders for order in setting} - {1, 2}:
        raise ValueError(f"'order_weights' should have orders 1 and 2, but has {min(unknown)}.")
    l2s = check_l2s(l2, len(orders))
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"'features' should have shape (n, d) with n and d at least 1, but has {features.shape}.")
    for name, column in (("targets", targets), ("domains", domains), ("sample_weight", sample_weight)):
        if column is not None:
            check_column(name, column.shape, len(features), "features")
    number = max(int(targets.max()) + 1, 2) if classes is None else classes
    if loss == "logistic" and number > 2:
        raise ValueError(f"loss 'logistic' takes two classes, but there are {number}. Use loss='cross_entropy'.")
    rows = SortedRows.sort(features, targets, domains, sample_weight, bias=bias)
    objective = AlignmentObjective(rows, number, l2=0.0, scaling=scaling, loss=loss)
    settings = [{term_name(order): weight for order, weight in setting.items()} for setting in orders]
    solutions = solve_path(objective, settings, l2=l2s, tol=tol, max_iter=max_iter)
    warn_if_stopped(all(solution.converged for solution in solutions), max_iter)
    return [
        LinearHead.of(solution, objective.shape, bias=bias, order_weights=setting)
        for solution, setting in zip(solutions, orders, strict=True)
    ]


def fit_towards(
    head: LinearHead,
    features: NDArray[np.floating],
    targets: Integers,
    *,
    sample_weight: Array | None = None,
    l2: float = 1e-3,
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> LinearHead:
    r"""Refit a head on other rows or weights, with L2 towards where it was.

    Minimises the weighted mean cross-entropy plus half of `l2` times the squared distance from `head`, intercepts
    included.

    Args:
        head: Its classes are those of the fit.
        features: Shape (n, d).
        targets: Class indices, shape (n,).
        sample_weight: Shape (n,).
        l2: Large values return `head`.
        bias: Whether to refit the intercepts; if not, they stay as they are.
        tol: Largest entry of the gradient at the solution.
        max_iter: Maximum number of iterations.

    Returns:
        The refitted head.

    Example:
        >>> head = LinearHead(np.array([[1.0]]), np.array([0.0]), 0.0, 0, True)
        >>> fit_towards(head, np.array([[0.0], [1.0]]), np.array([1, 0]), l2=1e6).coef.round(2)
        array([[1.]])
    """
    # The column of ones counts as a feature: distances include the intercepts'.
    rows = replace(SortedRows.sort(features, targets, None, sample_weight, bias=True), bias=False)
    classes, before = max(len(head.coef), 2), np.column_stack([head.coef, head.intercept])
    columns = before.shape[1] - (not bias)
    start = before[:, :columns].ravel()
    objective = AlignmentObjective(rows, classes, l2=0.0)
    fitted = AlignmentObjective(replace(rows, X=rows.X[:, :columns]), classes, l2=l2)

    def whole(point: Array) -> Array:
        return np.column_stack([point.reshape(-1, columns), before[:, columns:]]).ravel()

    def function(point: Array) -> tuple[float, Array]:
        (value, gradient), change = objective(whole(point)), point - start
        return value + 0.5 * l2 * float(change @ change), gradient.reshape(before.shape)[
            :, :columns
        ].ravel() + l2 * change

    solution = solve(function, start, fitted.coordinates, tol=tol, max_iter=max_iter)
    warn_if_stopped(solution.converged, max_iter)
    return LinearHead.of(solution._replace(head=whole(solution.head)), before.shape, bias=True)


def check_l2s(l2: float | Sequence[float], settings: int) -> list[float]:
    """Check one L2 for all settings, or one for each; return one for each."""
    if not isinstance(l2, Sequence):
        return [check_weight("l2", l2)] * settings
    if len(l2) != settings:
        raise ValueError(f"'l2' should be a number, or one for each of the {settings} settings, but has {len(l2)}.")
    return [check_weight("l2", value) for value in l2]


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
    (weights, l2), (other_weights, other_l2) = one, other
    names = sorted({*weights, *other_weights})
    decades = [math.log10((weights.get(name, 0.0) + 1e-3) / (other_weights.get(name, 0.0) + 1e-3)) for name in names]
    return sum(abs(value) for value in decades) + abs(math.log10((l2 + 1e-6) / (other_l2 + 1e-6)))
