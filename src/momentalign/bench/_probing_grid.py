"""The paper's probing grid with the converged solver: 7 × 7 weights on one seed, the top five sets on five seeds."""

import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from momentalign.bench._rows import Row
from momentalign.bench._run import Section
from momentalign.probing import ProbeData, ProbeFeatures, find_method, project, recipe_for, run_protocol
from momentalign.probing._solvers import Solver

TABLE = "probing grid"


@dataclass(frozen=True)
class ProbingSize:
    """A data set of the paper as far as its cost goes."""

    name: str
    train: int
    val: int
    test: int
    classes: int
    features: int = 100

    def __str__(self) -> str:
        return f"{self.name}: n={self.train}, d={self.features}, C={self.classes}"


SIZES = (
    ProbingSize("Waterbirds", 4_795, 1_199, 5_794, 2),
    ProbingSize("CelebA", 162_770, 19_867, 19_962, 2),
    ProbingSize("MultiNLI", 206_175, 82_462, 123_712, 3),
)


def probing_plan(device: torch.device, *, quick: bool, memory_limit: int) -> Iterator[Section]:
    """What the grid takes, on synthetic features of the three data sets' sizes and two domains.

    Args:
        device: The solver runs on the CPU, whatever it is.
        quick: One small size.
        memory_limit: Not needed: memory is a few times the features.

    Yields:
        A section for each data set.
    """
    for size in (ProbingSize("small", 600, 200, 200, 2, 10),) if quick else SIZES:
        yield Section(f"probing grid, {size}", partial(probing_rows, size))


def probing_rows(size: ProbingSize) -> list[Row]:
    """Time the grid and the seeds, and weigh one fit.

    Args:
        size: Of the data set.

    Returns:
        A row each for the preparation of the features, the grid, the seeds and all of it, with times in units of one
        fit from nothing, and for that fit, whose memory is in units of the training features.
    """
    data = synthetic_data(size)
    clock = _Clock()
    features = project(data, isr_class=0)
    clock.lap("PCA and ISR-Mean")
    one = _one_fit(features, clock)
    grid = 49

    def progress(part: str, share: float) -> None:
        clock.ticks += 1
        if clock.ticks == grid:
            clock.lap("grid of 49, each from its neighbour")

    begun = _now()
    run_protocol(features, ["cma"], progress=progress)
    clock.lap("top five on four more seeds")
    clock.laps["protocol, all of it"] = tuple(now - then for now, then in zip(_now(), begun, strict=True))
    fit, peak = one
    nbytes = features.train.features.nbytes
    rows = [
        Row(TABLE, str(size), name, seconds=wall, time_ratio=wall / fit, note=f"{cpu:.3g} s of processor time")
        for name, (wall, cpu) in clock.laps.items()
    ]
    rows[1] = Row(TABLE, str(size), rows[1].name, fit, peak, 1.0, peak / nbytes, rows[1].note)
    return rows


def synthetic_data(size: ProbingSize) -> ProbeData:
    """Features with a falling spectrum, classes and domains shifted; domains go with classes in the training rows."""
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


def _one_fit(features: ProbeFeatures, clock: "_Clock") -> tuple[float, int]:
    """Seconds of a fit with penalties from nothing, and the most bytes it held beyond the features."""
    solver, method = Solver("converged", recipe_for("table")), find_method("cma")
    setting = [{"gradient_weight": 1000.0, "hessian_weight": 1000.0}]
    clock.lap("")
    solver.fit(features, method, setting, seed=0)
    seconds = clock.lap("one fit")
    clock.laps.pop("", None)
    # A second time for its memory: watching every allocation takes time of its own.
    tracemalloc.start()
    solver.fit(features, method, setting, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    clock.lap("")
    clock.laps.pop("", None)
    return seconds, peak


class _Clock:
    """Wall-clock and processor seconds since the last lap, by name."""

    def __init__(self) -> None:
        self.last, self.ticks = _now(), 0
        self.laps: dict[str, tuple[float, ...]] = {}

    def lap(self, name: str) -> float:
        now = _now()
        self.laps[name] = tuple(new - old for new, old in zip(now, self.last, strict=True))
        self.last = now
        return self.laps[name][0]


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
