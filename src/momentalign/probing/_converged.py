"""The converged solver of the protocol: all settings of a method on one training set."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from momentalign.linear import LinearHead, Rows
from momentalign.linear._solver import Solution
from momentalign.probing._features import ProbeSplit
from momentalign.probing._group_dro import solve_minimax
from momentalign.probing._methods import Hparams, ProbeMethod
from momentalign.probing._path import Watch, solve_path

Array = NDArray[np.float64]


def fit_converged(
    method: ProbeMethod,
    train: ProbeSplit,
    settings: Sequence[Hparams],
    *,
    classes: int,
    l2: float,
    tol: float,
    max_iter: int,
    row_weights: Array | None = None,
    watch: Watch | None = None,
    tick: Callable[[], None] | None = None,
) -> list[LinearHead]:
    """Fit heads without bias, each setting from the nearest one before it.

    Args:
        method: What to minimise.
        train: Training rows.
        settings: Hyper-parameters of each fit.
        classes: Number of classes.
        l2: Weight of half the squared norm of the coefficients.
        tol: Largest entry of the gradient at a solution, relative to that at zero.
        max_iter: Most iterations of a fit.
        row_weights: How often each row counts, shape (n,).
        watch: Sees value and head after each pass over the rows that got lower.
        tick: Called after each setting.

    Returns:
        A head for each setting.
    """
    pooled = (method.same_as or method.name) == "erm"
    rows = Rows.sort(train.features, train.targets, None if pooled else train.domains, row_weights, bias=False)
    solutions: list[Solution]
    if method.name == "groupdro":
        found, _ = solve_minimax(rows, classes, l2=l2, tol=tol, max_iter=max_iter, watch=watch)
        solutions = [found] * len(settings)
        if tick is not None:
            tick()
    else:
        objective = method.objective(rows, classes, l2)
        weights = [method.weights(hparams) for hparams in settings]
        solutions = solve_path(objective, weights, tol=tol, max_iter=max_iter, watch=watch, tick=tick)
    shape = (1 if classes == 2 else classes, train.features.shape[1])
    return [
        LinearHead(
            found.head.reshape(shape).copy(), np.zeros(shape[0]), {}, found.value, found.iterations, found.converged
        )
        for found in solutions
    ]


def bootstrap_weights(train: ProbeSplit, seed: int) -> Array:
    """How often a bootstrap draws each row; draws that lose a domain or a class are made again.

    Args:
        train: Training rows.
        seed: Of the draw.

    Returns:
        Shape (n,).
    """
    rng = np.random.default_rng(seed)
    n = len(train.targets)
    cells = (train.domains, train.targets)
    while True:
        weights = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
        if all(len(np.unique(codes[weights > 0])) == len(np.unique(codes)) for codes in cells):
            return weights
