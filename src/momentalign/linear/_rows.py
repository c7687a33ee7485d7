"""Training rows sorted by domain, with their weights."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array, Integers

_NUMBERS = 2**17
"""Numbers in a block of rows: 1 MiB, which stays in a core's cache between the products that read it."""


@dataclass(frozen=True, eq=False)
class SortedRows:
    """n rows of K domains, sorted by domain.

    Attributes:
        X: Features (n, d); with a bias d counts it, as a last column of ones.
        targets: Class indices (n,), or real numbers (n, o).
        shares: Weight of each row in its domain's mean (n,); they sum to one in each domain.
        starts: Index of each domain's first row, and n; (K + 1,).
        bias: Whether the last column of X is constant.
    """

    X: Array
    targets: NDArray[Any]
    shares: Array
    starts: Integers
    bias: bool

    @classmethod
    def sort(
        cls,
        features: NDArray[np.floating],
        targets: NDArray[Any],
        domains: Integers | None,
        sample_weight: NDArray[np.floating] | None,
        *,
        bias: bool,
    ) -> Self:
        """Copy the rows in order of their domains; rows of weight 0 are dropped, and no domains are one domain."""
        labels = np.zeros(len(features), dtype=np.int64) if domains is None else domains
        order = np.argsort(labels, kind="stable")
        if sample_weight is not None:
            order = order[sample_weight[order] > 0]
        X = np.ones((len(order), features.shape[1] + bias))
        # Block by block: indexing in one go would hold a third copy of the data for a moment.
        for start in range(0, len(order), 4096):
            X[start : start + 4096, : features.shape[1]] = features[order[start : start + 4096]]
        weights: Array = (np.ones(len(labels)) if sample_weight is None else sample_weight)[order].astype(np.float64)
        sizes = np.bincount(np.cumsum(np.diff(labels[order], prepend=labels[order[:1]]) != 0))
        return cls(X, targets[order], *_shares(weights, sizes), bias)

    def thinned(self, step: int) -> Self:
        """Every `step`-th row of each domain, at least one of each."""
        kept = [np.arange(part.start, part.stop, step) for part in self.parts]
        index = np.concatenate(kept)
        shares, starts = _shares(self.shares[index], np.array([len(rows) for rows in kept]))
        return replace(self, X=self.X[index], targets=self.targets[index], shares=shares, starts=starts)

    @property
    def number(self) -> int:
        """Number of domains, K."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> Array:
        """Squared norms of the rows, (n,)."""
        lengths: Array = np.einsum("nd,nd->n", self.X, self.X)
        return lengths

    @property
    def sizes(self) -> Integers:
        """Number of rows of each domain."""
        return np.diff(self.starts)

    @property
    def parts(self) -> list[slice]:
        """Rows of each domain."""
        return list(map(slice, self.starts[:-1].tolist(), self.starts[1:].tolist()))


def _shares(weights: Array, sizes: Integers) -> tuple[Array, Integers]:
    """Weights (n,) divided by their domain's sum, and where the domains start, from the number of rows of each."""
    starts = np.append(0, np.cumsum(sizes))
    return weights / np.repeat(np.add.reduceat(weights, starts[:-1]), sizes), starts


def blocks(rows: int, dimension: int) -> Iterator[slice]:
    """Slices of rows whose products stay in the cache."""
    size = max(256, _NUMBERS // dimension)
    for start in range(0, rows, size):
        yield slice(start, start + size)
