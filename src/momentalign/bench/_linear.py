"""A fit of a linear head with gradients and Hessians aligned, beside scikit-learn's LogisticRegression."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from momentalign.bench._rows import Row
from momentalign.linear import fit_head, fit_path

TABLE = "linear fit"
_TOL = 1e-4  # that of LogisticRegression, and judged the same way: by the largest entry of the gradient


class LinearSize(NamedTuple):
    """Rows, features and classes; two domains."""

    rows: int
    features: int
    classes: int

    def __str__(self) -> str:
        return f"n={self.rows}, d={self.features}, C={self.classes}"


SIZES = (LinearSize(4_795, 100, 2), LinearSize(162_770, 100, 2), LinearSize(206_175, 100, 3))
"""Training rows of Waterbirds, CelebA and MultiNLI, features as PCA leaves them."""

WEIGHTS = {1: 1.0, 2: 10.0}


def synthetic_features(
    size: LinearSize, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Features with a falling spectrum, classes shifted by means that differ a little between two domains."""
    rng = np.random.default_rng(seed)
    targets, domains = rng.integers(0, size.classes, size.rows), rng.integers(0, 2, size.rows)
    X = rng.normal(size=(size.rows, size.features))
    X += 0.25 * rng.normal(size=(size.classes, size.features))[targets]
    X += 0.15 * rng.normal(size=(2, size.classes, size.features))[domains, targets]
    X *= 3.0 * np.arange(1, size.features + 1) ** -0.5
    return X, targets, domains


def linear_fits(sizes: tuple[LinearSize, ...] = SIZES, rounds: int = 3) -> Iterator[Row]:
    """Time the fits side by side, in turns.

    Args:
        sizes: Sizes to time.
        rounds: Times that each fit is made; the median counts.

    Yields:
        For each size a row for LogisticRegression, which counts as one, for the aligned fit, and for a path of five.
    """
    for size in sizes:
        X, targets, domains = synthetic_features(size)
        l2 = 1.0 / size.rows  # C = 1
        path = [{order: share * weight for order, weight in WEIGHTS.items()} for share in (0.0, 0.03, 0.1, 0.3, 1.0)]
        plain = LogisticRegression(max_iter=1000, tol=_TOL)
        fits: dict[str, Callable[[], object]] = {
            "LogisticRegression": partial(plain.fit, X, targets),
            "aligned": partial(fit_head, X, targets, domains, WEIGHTS, l2=l2, tol=_TOL),
            "path of 5": partial(fit_path, X, targets, domains, path, l2=l2, tol=_TOL),
        }
        times: dict[str, list[float]] = {name: [] for name in fits}
        for _ in range(rounds):
            for name, fit in fits.items():
                begun = time.perf_counter()
                fit()
                times[name].append(time.perf_counter() - begun)
        unit = statistics.median(times["LogisticRegression"])
        for name, seconds in times.items():
            median = statistics.median(seconds)
            yield Row(TABLE, str(size), name, seconds=median, time_ratio=median / unit)
