"""Time of every method for worst groups, and of the search over all: `python -m benchmarks.groups.speed`."""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.markdown import table
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
        "search": MomentAlignedClassifierCV(selection="worst_group", methods=methods),
    }
    seconds = {}
    for name, model in models.items():
        arguments = {} if name == "plain" else {"groups": 2 * y + attribute, "domains": attribute}
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, **arguments)
        seconds[name] = time.process_time() - start
    return seconds


def main(rows: int = 20_000, features: int = 100, methods: Sequence[str] = METHODS) -> None:
    """Print the table."""
    seconds = measure(rows, features, methods)
    print(table(list(seconds), [[f"{value:.1f}" for value in seconds.values()]]))


if __name__ == "__main__":
    main()
