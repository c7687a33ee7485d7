"""Tables of numbers with labels and domains, as people pass them to estimators; most of them fit, some do not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray


@dataclass(frozen=True)
class GeneratedRows:
    """Arguments of `fit`: features, classes, numbers, domains, weights."""

    X: NDArray[Any]
    y: NDArray[Any]
    numbers: NDArray[Any]
    domains: NDArray[Any]
    weights: NDArray[Any] | None

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}=np.array({value.tolist()!r})" for name, value in vars(self).items() if value is not None
        )
        return f"GeneratedRows({fields})"


@st.composite
def labels(draw: st.DrawFn, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Labels of some kind for n rows: integers, strings, booleans or real numbers, mostly of two kinds or more."""
    pool = draw(
        st.sampled_from(
            [
                np.array([0, 1]),
                np.array([3, -1, 2**40]),
                np.array(["north", "", "süd", "=cmd"]),
                np.array([False, True]),
                np.array([0.0, 2.0, 5.0]),
                np.array(["a", "b", "c", "d"], dtype=object),
            ]
        )
    )
    number = draw(st.sampled_from([2] * 6 + [1, len(pool)]))
    return np.asarray(pool[rng.integers(0, number, n)])


@st.composite
def tables(draw: st.DrawFn, exponents: tuple[int, int] = (-10, 10), least: int = 1, rows: int = 24) -> GeneratedRows:
    """A table of `least` to `rows` rows: columns of any scale and offset, constant or repeated, missing values."""
    n, d = draw(st.integers(least, rows)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d))
    for column in range(d):
        kind = draw(st.sampled_from(["normal", "normal", "scaled", "offset", "constant", "integers", "repeated"]))
        if kind == "scaled":
            X[:, column] *= 10.0 ** draw(st.integers(*exponents))
        elif kind == "offset":
            X[:, column] += 10.0 ** draw(st.integers(0, exponents[1]))
        elif kind == "constant":
            X[:, column] = 10.0 ** draw(st.integers(*exponents))
        elif kind == "integers":
            X[:, column] = X[:, column].round()
        elif kind == "repeated":
            X[:, column] = X[:, 0]
    if draw(st.booleans()):
        X = X.astype(np.float32)
    y, domains = draw(labels(n, rng)), draw(labels(n, rng))
    numbers = X[:, 0].astype(np.float64) + rng.normal(size=n) * draw(st.sampled_from([0.0, 1.0]))
    weights = None
    weighting = draw(st.sampled_from(["none"] * 4 + ["random", "zeros", "domain", "all zero"]))
    if weighting != "none":
        weights = rng.uniform(0.1, 2.0, n)
        if weighting == "zeros":
            weights *= rng.integers(0, 2, n)
        elif weighting == "domain":
            weights *= domains == domains[0]
        elif weighting == "all zero":
            weights *= 0
    if draw(st.integers(0, 20)) == 13:
        X[rng.integers(0, n), rng.integers(0, d)] = draw(st.sampled_from([np.nan, np.inf]))
    return GeneratedRows(X, y, numbers, domains, weights)
