r"""Fits of a linear head over a grid of weights, each started where the nearest one ended."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from momentalign._batch import check_order
from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear._objective import PenalisedObjective
from momentalign.linear._precondition import gauss_newton
from momentalign.linear._rows import Array, Integers, Rows
from momentalign.linear._solver import Solution, solve, solve_plain, warn_if_stopped

Key = TypeVar("Key")


@dataclass(frozen=True, eq=False)
class LinearHead:
    """A fitted head.

    Attributes:
        coef: Shape (C, d), (1, d) for two classes.
        intercept: Shape (C,) or (1,); zeros where the head has none.
        order_weights: Weight of each order.
        objective: Value of the penalised objective.
        n_iter: Iterations of the solver, those without penalties included.
        converged: Whether the gradient came below the tolerance within them, or the objective as low as float64 can
            tell. SGD has no tolerance to meet: whether its losses stayed finite.
    """

    coef: Array
    intercept: Array
    order_weights: dict[int, float]
    objective: float
    n_iter: int
    converged: bool


def fit_head(
    features: NDArray[np.floating],
    targets: Integers,
    domains: Integers | None = None,
    order_weights: Mapping[int, float] | None = None,
    *,
    classes: int | None = None,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float = 1e-3,
    scaling: str = "relative",
    loss: str = "cross_entropy",
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> LinearHead:
    r"""Fit one linear classifier: :func:`fit_path` for a single setting.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        domains: Where each row came from: any integers, shape (n,); None is one domain.
        order_weights: Weight of each order, `{1: w1, 2: w2, 3: w3}`; None aligns nothing.
        classes: C, where the targets do not hold the last class.
        sample_weight: Weight of each row in its domain's mean, shape (n,).
        l2: Weight of half the squared norm of the coefficients.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`.
        loss: `"cross_entropy"`, or `"logistic"`: two classes whose derivatives are those of one logit.
        bias: Whether the head has one.
        tol: Largest entry of the gradient at the solution.
        max_iter: Most iterations of each part, without penalties and with them.

    Returns:
        The head.

    Example:
        >>> features, targets = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
        >>> head = fit_head(features, targets, np.array([0, 1, 0, 1]), {1: 1.0}, l2=0.1)
        >>> head.coef.shape, head.converged
        ((1, 1), True)
    """
    return fit_path(
        features,
        targets,
        domains,
        [order_weights or {}],
        classes=classes,
        sample_weight=sample_weight,
        l2=l2,
        scaling=scaling,
        loss=loss,
        bias=bias,
        tol=tol,
        max_iter=max_iter,
    )[0]


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
    r"""Fit a linear classifier for every setting of the weights.

    The rows are sorted once and the fit without penalties is made once for each L2; the settings follow from the
    smallest to the largest, each from the solution of the nearest one before it. A setting costs a few evaluations
    that way.

    Args:
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        domains: Where each row came from: any integers, shape (n,); None is one domain.
        order_weights: A dictionary `{1: w1, 2: w2, 3: w3}` for each setting.
        classes: C, where the targets do not hold the last class.
        sample_weight: Weight of each row in its domain's mean, shape (n,).
        l2: Weight of half the squared norm of the coefficients: one for all settings, or one for each.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`.
        loss: `"cross_entropy"`, or `"logistic"`: two classes whose derivatives are those of one logit.
        bias: Whether the head has one.
        tol: Largest entry of the gradient at a solution.
        max_iter: Most iterations of each setting.

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
    settings = [_check_setting(setting) for setting in order_weights]
    l2s = check_l2s(l2, len(settings))
    _check_lengths(features, targets=targets, domains=domains, sample_weight=sample_weight)
    number = max(int(targets.max()) + 1, 2) if classes is None else classes
    if loss == "logistic" and number > 2:
        raise ValueError(f"loss 'logistic' takes two classes, but there are {number}. Use loss='cross_entropy'.")
    rows = Rows.sort(features, targets, domains, sample_weight, bias=bias)
    objective = PenalisedObjective(rows, number, {}, l2=0.0, scaling=scaling, loss=loss)

    plain: dict[float, Solution] = {}
    for value in sorted(set(l2s), reverse=True):
        # From the smallest head to the largest: the last solution is nearer than zero is.
        objective.l2, start = value, plain[min(plain)].head if plain else None
        plain[value] = solve_plain(objective, tol=tol, max_iter=max_iter, start=start)
    solved: list[tuple[dict[int, float], float, Array]] = [({}, value, plain[value].head) for value in plain]
    solutions: dict[int, Solution] = {}
    for index in sorted(range(len(settings)), key=lambda index: (sum(settings[index].values()), -l2s[index])):
        setting, objective.l2 = settings[index], l2s[index]
        objective.set_weights(setting)
        before = plain[objective.l2]
        if not objective.weights:
            solutions[index] = before
            continue
        here = (setting, objective.l2)
        start = min(solved, key=lambda other: _distance(other[:2], here))[2]
        aligned = solve(objective, start, partial(gauss_newton, objective), tol=tol, max_iter=max_iter)
        solved.append((*here, aligned.head))
        solutions[index] = aligned._replace(
            iterations=before.iterations + aligned.iterations, converged=before.converged and aligned.converged
        )
    warn_if_stopped(all(solution.converged for solution in solutions.values()), max_iter)
    return [_as_head(solutions[index], objective, setting) for index, setting in enumerate(settings)]


def _check_setting(setting: Mapping[int, float]) -> dict[int, float]:
    return {
        check_order(order, "cross_entropy"): check_weight(f"order_weights[{order}]", weight)
        for order, weight in setting.items()
    }


def _check_lengths(features: NDArray[np.floating], **columns: NDArray[np.generic] | None) -> None:
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"'features' should have shape (n, d) with n and d at least 1, but has {features.shape}.")
    for name, column in columns.items():
        if column is not None and column.shape != (len(features),):
            raise ValueError(
                f"'{name}' should have one entry per row of 'features' ({len(features)}), but has shape {column.shape}."
            )


def check_l2s(l2: float | Sequence[float], settings: int) -> list[float]:
    """An L2 for each setting, from one for all or one for each."""
    if not isinstance(l2, Sequence):
        return [check_weight("l2", l2)] * settings
    if len(l2) != settings:
        raise ValueError(f"'l2' should be a number, or one for each of the {settings} settings, but has {len(l2)}.")
    return [check_weight("l2", value) for value in l2]


def weight_distance(one: Mapping[Key, float], other: Mapping[Key, float]) -> float:
    """How far apart two settings of the weights are, in decades above a thousandth."""
    return sum(abs(math.log10((one.get(key, 0.0) + 1e-3) / (other.get(key, 0.0) + 1e-3))) for key in {*one, *other})


def _distance(one: tuple[Mapping[int, float], float], other: tuple[Mapping[int, float], float]) -> float:
    """How far apart two settings are, weights and L2, the latter in decades above a millionth."""
    return weight_distance(one[0], other[0]) + abs(math.log10((one[1] + 1e-6) / (other[1] + 1e-6)))


def _as_head(solution: Solution, objective: PenalisedObjective, setting: dict[int, float]) -> LinearHead:
    W = solution.head.reshape(objective.shape)
    coef, intercept = (W[:, :-1], W[:, -1]) if objective.rows.bias else (W, np.zeros(len(W)))
    return LinearHead(coef.copy(), intercept.copy(), setting, solution.value, solution.iterations, solution.converged)
