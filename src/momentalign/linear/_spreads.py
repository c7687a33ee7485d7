r"""Spread over domains of the derivatives of one order, as a function of the residual coordinates, and its derivative.

Two ways to the same number. *Direct*, block by block of rows: add each block to its domain's derivative,
Σ_i u_i S_i ⊗ x_i^{⊗r}, then contract the spread's derivative :math:`B_e = \frac2K M (D_e - \bar D)` with each row.
At order 2 both are one product of n·d² per coordinate, and nothing of size n·d² is stored. *Kernel*:

.. math:: \mathrm{spread} = \sum_{ij} k_{ij}\, S_i M S_j^\top,\qquad
          k_{ij} = \frac{u_i u_j}{K}\Big(\mathrm{same}_{ij} - \frac1K\Big)(x_i\cdot x_j)^r

with k computed once, since features are fixed: one product k S, n²·q whatever d. For wide features, many classes and
order 3.

Legend: X (b, d) block of rows, S (b, q) its coordinates, u (b,) its shares, D (K, q, d, …) derivatives.
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg.blas import dtrmm

from momentalign._types import Array
from momentalign.linear._losses import HeadLoss
from momentalign.linear._rows import SortedRows

KERNEL_ENTRIES = 2**28
"""Largest number of entries of k: 2 GiB, 16,384 rows; and of the domains' derivatives where k is not larger."""


class DirectSpread(ABC):
    """Derivatives of one order, accumulated over blocks of rows."""

    order: int

    def __init__(self, loss: HeadLoss, domains: int, dimension: int) -> None:
        self.loss = loss
        self.derivatives = np.zeros((domains, loss.width(self.order), *[dimension] * self.order))

    def reset(self) -> None:
        """Set the derivatives to zero."""
        self.derivatives[...] = 0.0

    @abstractmethod
    def add(self, domain: int, X: Array, S: Array, u: Array) -> None:
        """Add a block of rows to its domain's derivative."""

    def spread(self) -> float:
        """Mean squared distance from the mean; stores B for :meth:`pull`."""
        K, q = self.derivatives.shape[:2]
        centred = self.derivatives - self.derivatives.mean(0)
        flat = np.moveaxis(centred.reshape(K, q, -1), 1, 2)
        raised = self.loss.metric(self.order, flat)
        self._store(np.moveaxis(raised, 2, 1).reshape(centred.shape) * (2.0 / K))
        return float((flat * raised).sum() / K)

    @abstractmethod
    def _store(self, B: Array) -> None:
        """Store B in the form that :meth:`pull` multiplies with."""

    @abstractmethod
    def pull(self, domain: int, X: Array) -> Array:
        """Contract B with each row, shape (b, q): the spread's derivative by S, without the shares."""


class GradientSpread(DirectSpread):
    """Order 1: D is (K, o, d)."""

    order = 1

    def add(self, domain: int, X: Array, S: Array, u: Array) -> None:
        self.derivatives[domain] += (S * u[:, None]).T @ X

    def _store(self, B: Array) -> None:
        self._B = B

    def pull(self, domain: int, X: Array) -> Array:
        product: Array = X @ self._B[domain].T
        return product


class HessianSpread(DirectSpread):
    """Order 2: D is (K, q, d, d), the weighted second moments of the pairs of classes, one for two classes."""

    order = 2

    def add(self, domain: int, X: Array, S: Array, u: Array) -> None:
        # BLAS computes only half of a matrix times its own transpose.
        Y = np.sqrt(S * u[:, None]).T[:, :, None] * X
        self.derivatives[domain] += np.matmul(Y.transpose(0, 2, 1), Y)

    def _store(self, B: Array) -> None:
        # x'Bx from the lower triangle alone: a triangular product takes half the work.
        self._lower = np.tril(B, -1) * 2.0 + np.einsum("kqii,ij->kqij", B, np.eye(B.shape[-1]))
        self._wide = np.moveaxis(B, 1, 2).reshape(len(B), B.shape[-1], -1)

    def pull(self, domain: int, X: Array) -> Array:
        b, d = X.shape
        forms: Array
        if self.loss.width(2) == 1:
            product = dtrmm(1.0, self._lower[domain, 0].T, X.T)
            forms = np.einsum("db,db->b", product, X.T)[:, None]
        else:
            forms = np.einsum("bqd,bd->bq", (X @ self._wide[domain]).reshape(b, -1, d), X)
        return forms


class KernelSpread:
    """Any order, through the matrix k."""

    def __init__(self, order: int, loss: HeadLoss, rows: SortedRows) -> None:
        self.order, self.loss = order, loss
        inner = rows.X @ rows.X.T
        kernel = inner.copy() if order > 1 else inner
        for _ in range(order - 1):
            kernel *= inner
        del inner
        K, u = rows.number, rows.shares
        for start, end in zip(rows.starts[:-1], rows.starts[1:], strict=True):
            kernel[start:end] *= -1.0 / K
            kernel[start:end, start:end] *= 1.0 - K
        kernel *= u / K
        kernel *= u[:, None]
        self._kernel = kernel

    def spread(self, S: Array) -> tuple[float, Array]:
        """Spread, and its derivative by S (n, q)."""
        half = self.loss.metric(self.order, self._kernel @ S)
        return float((S * half).sum()), 2.0 * half


def make_spread(order: int, loss: HeadLoss, rows: SortedRows) -> DirectSpread | KernelSpread:
    """Choose the cheaper way for an order; raise a ValueError where order 3 has too many rows."""
    (n, d), q = rows.X.shape, loss.width(order)
    if order == 1:
        return GradientSpread(loss, rows.number, d)
    if order == 2:
        # Flops; a product with few columns is bound by memory, as if it had eight.
        direct, kernel = 3 * n * d**2 * q, 2 * n**2 * max(q, 8)
        cheap = direct <= kernel and rows.number * q * d**2 <= KERNEL_ENTRIES
        if cheap or n**2 > KERNEL_ENTRIES:
            return HessianSpread(loss, rows.number, d)
    elif n**2 > KERNEL_ENTRIES or n * q > KERNEL_ENTRIES:
        raise ValueError(
            f"Alignment of order 3 takes up to {int(KERNEL_ENTRIES**0.5)} rows, and {KERNEL_ENTRIES} rows times "
            f"coordinates, but there are {n} rows of {q} coordinates. Use fewer rows or classes, or orders 1 and 2."
        )
    return KernelSpread(order, loss, rows)
