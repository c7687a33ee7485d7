"""Time of every method for worst groups, and of the search over all.

python -m benchmarks.groups.speed --out speed.json
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.costs.rows import save_speed
from momentalign.bench import BenchmarkRow
from momentalign.sklearn import GroupRobustClassifier, MomentAlignedClassifierCV

METHODS = ("subsampled", "balanced", "groupdro", "dfr", "cma", "afr", "jtt")


def make_groups(rows: int, features: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Features that follow the class, one of them an attribute that 95% of a class share; classes; attributes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    attribute = np.where(rng.random(rows) < 0.95, y, 1 - y)
    X = rng.normal(size=(rows, features))
    X[:, 0] += y
    X[:, 1] += 2 * attribute
    return X, y, attribute


def measure(rows: int, features: int, methods: Sequence[str] = METHODS) -> dict[str, float]:
    """CPU seconds of one plain fit, of each method with its own search, and of the search over all."""
    X, y, attribute = make_groups(rows, features)
    models: dict[str, Any] = {
        "plain": LogisticRegression(),
        **{method: GroupRobustClassifier(method) for method in methods},
        "search over all": MomentAlignedClassifierCV(selection="worst_group", methods=methods),
    }
    seconds = {}
    for name, model in models.items():
        arguments = {} if name == "plain" else {"groups": 2 * y + attribute, "domains": attribute}
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, **arguments)
        seconds[name] = max(time.process_time() - start, 1e-9)
    return seconds


def main(
    arguments: Sequence[str] | None = None, rows: int = 20_000, features: int = 100, methods: Sequence[str] = METHODS
) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groups.speed", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the numbers")
    given = parser.parse_args(arguments)
    found, size = measure(rows, features, methods), f"{rows:,} rows, {features} features, four groups"
    for name, seconds in found.items():
        print(f"{name}: {seconds:.2f} s")
    save_speed(
        given.out,
        [
            BenchmarkRow("worst groups", size, name, seconds, time_ratio=seconds / found["plain"])
            for name, seconds in found.items()
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
