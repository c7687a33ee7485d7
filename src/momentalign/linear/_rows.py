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
        _, starts = np.unique(labels[order], return_index=True)
        bounds = np.append(starts, len(order)).astype(np.int64)
        weights = np.ones(len(order)) if sample_weight is None else sample_weight[order]
        totals = np.add.reduceat(weights, starts)
        return cls(X, targets[order], weights / np.repeat(totals, np.diff(bounds)), bounds, bias)

    def thinned(self, step: int) -> Self:
        """Every `step`-th row of each domain, at least one of each."""
        kept = [np.arange(first, end, step) for first, end in zip(self.starts[:-1], self.starts[1:], strict=True)]
        index, sizes = np.concatenate(kept), [len(rows) for rows in kept]
        starts = np.append(0, np.cumsum(sizes))
        totals = np.add.reduceat(self.shares[index], starts[:-1])
        shares = self.shares[index] / np.repeat(totals, sizes)
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
    def parts(self) -> list[slice]:
        """Rows of each domain."""
        return [
            slice(start, end) for start, end in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        ]


def blocks(rows: int, dimension: int) -> Iterator[slice]:
    """Slices of rows whose products stay in the cache."""
    size = max(256, _NUMBERS // dimension)
    for start in range(0, rows, size):
        yield slice(start, start + size)
