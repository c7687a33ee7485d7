"""Domains with known differences, for the tests of the diagnosis."""

import numpy as np

from momentalign.tables import ComparedRows


def make_rows(
    *, flipped: int | None = None, moved: int | None = None, rare: int | None = None, size: int = 80, domains: int = 4
) -> ComparedRows:
    """Rows of three columns, the first of which decides the class; one domain may differ in one way.

    `flipped`: the first column decides the other way round. `moved`: the last column, which decides nothing, is higher.
    `rare`: most rows of the second class are left out.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(size * domains, 3))
    index = np.repeat(np.arange(domains), size)
    slope = np.where(index == flipped, -2.0, 2.0)
    y = (slope * X[:, 0] + rng.logistic(size=len(X)) > 0).astype(np.int64)
    X[index == moved, 2] += 1.5
    kept = (index != rare) | (y == 0) | (rng.uniform(size=len(X)) < 0.2)
    names = tuple(f"site {number}" for number in range(domains))
    return ComparedRows(X[kept], y[kept], index[kept], names, ("no", "yes"))


def silent(part: str, share: float) -> None:
    """Progress that is not shown."""
