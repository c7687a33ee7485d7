"""Time of the searches against scikit-learn's on the same folds and grid.

python -m benchmarks.estimators.speed --out speed.json
"""

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.model_selection import GroupKFold

from benchmarks.costs.rows import save_speed
from momentalign.bench import BenchmarkRow
from momentalign.sklearn import MomentAlignedClassifierCV, MomentAlignedRegressorCV


class Shape(NamedTuple):
    """Size of a synthetic table; without classes it is a regression."""

    domains: int
    rows: int
    features: int
    classes: int | None = None


SHAPES = (
    Shape(8, 1000, 20, 2),
    Shape(10, 500, 128, 6),
    Shape(36, 150, 43, 6),
    Shape(50, 920, 20, 2),
    Shape(12, 1000, 30),
    Shape(50, 920, 20),
)


def make_table(shape: Shape) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.int64]]:
    """Correlated features whose means differ between domains, targets from a linear model with noise, domains."""
    rng = np.random.default_rng(0)
    domains, d = np.repeat(np.arange(shape.domains), shape.rows), shape.features
    mixing = 0.3 * np.eye(d) + rng.normal(size=(d, d)) / np.sqrt(d)
    X = rng.normal(size=(len(domains), d)) @ mixing + rng.normal(size=(shape.domains, d))[domains]
    outputs = 1 if shape.classes is None else shape.classes
    scores = X @ rng.normal(size=(d, outputs)) / np.sqrt(d) * 1.5 + rng.gumbel(size=(len(X), outputs))
    scores += 0.5 * rng.normal(size=(shape.domains, outputs))[domains]
    return (X - X.mean(0)) / X.std(0), scores[:, 0] if shape.classes is None else scores.argmax(1), domains


def measure(shape: Shape) -> dict[str, float]:
    """CPU seconds of one fit with scikit-learn's defaults, of its search and of ours, on one thread."""
    X, y, domains = make_table(shape)
    splits = list(GroupKFold(min(10, shape.domains)).split(X, groups=domains))
    factors = (0.01, 0.1, 1.0, 10.0, 100.0)
    models: dict[str, Any]
    if shape.classes is None:
        theirs = RidgeCV(factors, cv=splits, scoring="neg_root_mean_squared_error")
        models = {"one fit": Ridge(), "scikit-learn's search": theirs, "ours": MomentAlignedRegressorCV()}
    else:
        options: dict[str, Any] = {"max_iter": 1000}
        if "use_legacy_attributes" in LogisticRegressionCV().get_params():  # without it newer releases warn
            options |= {"l1_ratios": (0,), "use_legacy_attributes": False}
        theirs = LogisticRegressionCV(
            Cs=[1 / factor for factor in factors], cv=splits, scoring="balanced_accuracy", **options
        )
        models = {
            "one fit": LogisticRegression(max_iter=1000),
            "scikit-learn's search": theirs,
            "ours": MomentAlignedClassifierCV(),
        }
    seconds = {}
    for name, model in models.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y, **({"domains": domains} if name == "ours" else {}))
        seconds[name] = max(time.process_time() - start, 1e-9)
    return seconds


def speed_rows(shapes: Sequence[Shape] = SHAPES) -> Iterator[BenchmarkRow]:
    """Yield the times of each table, in units of scikit-learn's search."""
    for shape in shapes:
        seconds = measure(shape)
        kind = "regression" if shape.classes is None else f"{shape.classes} classes"
        size = f"{shape.domains} × {shape.rows} rows, {shape.features} features, {kind}"
        for name in ("scikit-learn's search", "ours", "one fit"):
            yield BenchmarkRow(
                "searches", size, name, seconds[name], time_ratio=seconds[name] / seconds["scikit-learn's search"]
            )


def main(arguments: Sequence[str] | None = None, shapes: Sequence[Shape] = SHAPES) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators.speed", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the numbers")
    given = parser.parse_args(arguments)
    rows = []
    for row in speed_rows(shapes):
        print(f"{row.size}, {row.name}: {row.seconds:.2f} s", flush=True)
        rows.append(row)
        save_speed(given.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
