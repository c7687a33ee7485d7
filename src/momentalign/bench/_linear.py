"""Linear heads on fixed features: one fit beside scikit-learn's LogisticRegression, and the paper's probing grid."""

import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from momentalign.bench._measure import cpu_clock
from momentalign.bench._results import BenchmarkGroup, BenchmarkRow
from momentalign.linear import fit_head, fit_path
from momentalign.probing import ProbeData, ProbeFeatures, ProbeSolver, find_method, project, run_protocol

_FITS, _GRID = "linear fit", "probing grid"
_TOL = 1e-4  # that of LogisticRegression, and judged the same way: by the largest entry of the gradient
_WEIGHTS = {1: 1.0, 2: 10.0}


class LinearSize(NamedTuple):
    """Rows, features and classes; two domains."""

    rows: int
    features: int
    classes: int

    def __str__(self) -> str:
        return f"n={self.rows}, d={self.features}, C={self.classes}"


LINEAR_SIZES = (LinearSize(4_795, 100, 2), LinearSize(162_770, 100, 2), LinearSize(206_175, 100, 3))
"""Training rows of Waterbirds, CelebA and MultiNLI, features as PCA leaves them."""


def linear_fits(sizes: tuple[LinearSize, ...] = LINEAR_SIZES, rounds: int = 3) -> Iterator[BenchmarkRow]:
    """Time LogisticRegression, the aligned fit and a path of five weights, in turns; medians over `rounds`."""
    clock = cpu_clock()
    for size in sizes:
        X, targets, domains = _synthetic_features(size)
        l2 = 1.0 / size.rows  # C = 1
        path = [{order: share * weight for order, weight in _WEIGHTS.items()} for share in (0.0, 0.03, 0.1, 0.3, 1.0)]
        plain = LogisticRegression(max_iter=1000, tol=_TOL)
        fits: dict[str, Callable[[], object]] = {
            "LogisticRegression": partial(plain.fit, X, targets),
            "aligned": partial(fit_head, X, targets, domains, _WEIGHTS, l2=l2, tol=_TOL),
            "path of 5": partial(fit_path, X, targets, domains, path, l2=l2, tol=_TOL),
        }
        times: dict[str, list[float]] = {name: [] for name in fits}
        for _ in range(rounds):
            for name, fit in fits.items():
                started = clock()
                fit()
                times[name].append(clock() - started)
        unit = statistics.median(times["LogisticRegression"])
        for name, seconds in times.items():
            median = statistics.median(seconds)
            yield BenchmarkRow(_FITS, str(size), name, seconds=median, time_ratio=median / unit)


def _synthetic_features(size: LinearSize) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Features with a falling spectrum, classes shifted by means that differ a little between two domains."""
    rng = np.random.default_rng(0)
    targets, domains = rng.integers(0, size.classes, size.rows), rng.integers(0, 2, size.rows)
    X = rng.normal(size=(size.rows, size.features))
    X += 0.25 * rng.normal(size=(size.classes, size.features))[targets]
    X += 0.15 * rng.normal(size=(2, size.classes, size.features))[domains, targets]
    X *= 3.0 * np.arange(1, size.features + 1) ** -0.5
    return X, targets, domains


@dataclass(frozen=True)
class ProbingSize:
    """Rows, features and classes of a data set of the paper."""

    name: str
    train: int
    val: int
    test: int
    classes: int
    features: int = 100

    def __str__(self) -> str:
        return f"{self.name}: n={self.train}, d={self.features}, C={self.classes}"


_PROBING_SIZES = (
    ProbingSize("Waterbirds", 4_795, 1_199, 5_794, 2),
    ProbingSize("CelebA", 162_770, 19_867, 19_962, 2),
    ProbingSize("MultiNLI", 206_175, 82_462, 123_712, 3),
)


def probing_plan(device: torch.device, *, quick: bool, memory_limit: int) -> Iterator[BenchmarkGroup]:
    """The paper's probing grid with the converged solver: 7 × 7 weights on one seed, the best five on five seeds.

    Features are synthetic, of the three data sets' sizes and two domains. The solver runs on the CPU whatever the
    device, and its memory is a few times the features, so that `memory_limit` is not needed.
    """
    for size in (ProbingSize("small", 600, 200, 200, 2, 10),) if quick else _PROBING_SIZES:
        yield BenchmarkGroup(f"probing grid, {size}", partial(probing_rows, size))


def probing_rows(size: ProbingSize) -> list[BenchmarkRow]:
    """Time of the features, one fit, the grid, the seeds and the whole, in units of a fit from a cold start.

    The memory of that fit is in units of the training features.
    """
    data = _synthetic_probing_data(size)
    laps = _Laps()
    features = project(data, isr_class=0)
    laps.add("PCA and ISR-Mean")
    fit, peak = _one_fit(features, laps)
    started, grid, fits = _now(), 49, 0

    def progress(part: str, share: float) -> None:
        nonlocal fits
        fits += 1
        if fits == grid:
            laps.add(f"grid of {grid}, each from its neighbour")

    run_protocol(features, ["cma"], progress=progress)
    laps.add("top five on four more seeds")
    laps.seconds["protocol, all of it"] = _since(started)
    rows = [
        BenchmarkRow(
            _GRID, str(size), name, seconds=seconds, time_ratio=seconds / fit, note=f"{cpu:.3g} s of processor time"
        )
        for name, (seconds, cpu) in laps.seconds.items()
    ]
    memory = peak / features.train.features.nbytes
    rows[1] = BenchmarkRow(_GRID, str(size), rows[1].name, fit, peak, 1.0, memory, rows[1].note)
    return rows


def _synthetic_probing_data(size: ProbingSize) -> ProbeData:
    """Features with a falling spectrum, classes and domains shifted; domains follow classes in the training rows."""
    rng = np.random.default_rng(0)
    splits = np.repeat([0, 1, 2], [size.train, size.val, size.test])
    targets = rng.integers(0, size.classes, len(splits))
    follows = rng.random(len(splits)) < np.where(splits == 0, 0.9, 0.5)
    domains = np.where(follows, targets % 2, 1 - targets % 2)
    X = rng.normal(size=(len(splits), size.features))
    X += 0.25 * rng.normal(size=(size.classes, size.features))[targets]
    X += 0.25 * rng.normal(size=(2, size.features))[domains]
    X *= 3.0 * np.arange(1, size.features + 1) ** -0.5
    return ProbeData.from_arrays(X, targets, domains, splits, name=size.name)


def _one_fit(features: ProbeFeatures, laps: "_Laps") -> tuple[float, int]:
    """Seconds of a fit from a cold start, and its peak memory beyond the features."""
    solver, method = ProbeSolver("converged"), find_method("cma")
    setting = [{"gradient_weight": 1000.0, "hessian_weight": 1000.0}]
    laps.restart()
    solver.fit(features, method, setting, seed=0)
    seconds = laps.add("one fit")
    tracemalloc.start()  # in a second fit: tracing allocations takes time itself
    solver.fit(features, method, setting, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    laps.restart()
    return seconds, peak


class _Laps:
    """Seconds of each part, and of the processor."""

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}
        self.restart()

    def restart(self) -> None:
        self.last = _now()

    def add(self, name: str) -> float:
        self.seconds[name] = _since(self.last)
        self.restart()
        return self.seconds[name][0]


def _now() -> tuple[float, float]:
    return cpu_clock()(), time.process_time()


def _since(started: tuple[float, float]) -> tuple[float, float]:
    now, cpu = _now()
    return now - started[0], cpu - started[1]
