r"""Spread of the domains' derivatives from the derivatives themselves, block of rows by block of rows.

Forward: add each block to its domain's derivative, Σ_i u_i S_i ⊗ x_i^{⊗r}. Backward: the spread's derivative by a
domain's derivative, :math:`B_e = \frac2K M (D_e - \bar D)`, contracted with each row again. At order 2 both are one
product of n·d² a coordinate, and nothing of size n·d² is kept.

Legend: X (b, d) block of rows, S (b, q) its coordinates, u (b,) its shares, D (K, q, d, …) derivatives.
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg.blas import dtrmm

from momentalign.linear._losses import Loss
from momentalign.linear._rows import Array


class DirectTerm(ABC):
    """Derivatives of one order, accumulated.

    Args:
        loss: Whose coordinates come in.
        domains: Number K.
        dimension: Number d, the constant included.
    """

    order: int

    def __init__(self, loss: Loss, domains: int, dimension: int) -> None:
        self.loss = loss
        self.derivatives = np.zeros((domains, loss.width(self.order), *[dimension] * self.order))

    def reset(self) -> None:
        """Forget the last point."""
        self.derivatives[...] = 0.0

    @abstractmethod
    def add(self, domain: int, X: Array, S: Array, u: Array) -> None:
        """Add a block of rows to its domain's derivative."""

    def spread(self) -> float:
        """Mean squared distance from the mean; keeps B for :meth:`pull`."""
        K, q = self.derivatives.shape[:2]
        centred = self.derivatives - self.derivatives.mean(0)
        flat = np.moveaxis(centred.reshape(K, q, -1), 1, 2)
        raised = self.loss.metric(self.order, flat)
        self._keep(np.moveaxis(raised, 2, 1).reshape(centred.shape) * (2.0 / K))
        return float((flat * raised).sum() / K)

    @abstractmethod
    def _keep(self, B: Array) -> None:
        """Store B in the form that :meth:`pull` multiplies with."""

    @abstractmethod
    def pull(self, domain: int, X: Array) -> Array:
        """Contraction of B with each row, shape (b, q): the spread's derivative by S, but for the shares."""


class DirectGradients(DirectTerm):
    """Order 1: D is (K, o, d)."""

    order = 1

    def add(self, domain: int, X: Array, S: Array, u: Array) -> None:
        self.derivatives[domain] += (S * u[:, None]).T @ X

    def _keep(self, B: Array) -> None:
        self._B = B

    def pull(self, domain: int, X: Array) -> Array:
        product: Array = X @ self._B[domain].T
        return product


class DirectHessians(DirectTerm):
    """Order 2: D is (K, q, d, d), the weighted second moments of the pairs of classes, one for two classes."""

    order = 2

    def add(self, domain: int, X: Array, S: Array, u: Array) -> None:
        # A matrix times its own transpose is computed by halves: it takes half the work of two that differ.
        Y = np.sqrt(S * u[:, None]).T[:, :, None] * X
        self.derivatives[domain] += np.matmul(Y.transpose(0, 2, 1), Y)

    def _keep(self, B: Array) -> None:
        # x'Bx from the lower triangle alone, which a triangular product takes at half the work.
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


DIRECT: dict[int, type[DirectGradients] | type[DirectHessians]] = {1: DirectGradients, 2: DirectHessians}
"""Orders that are built directly."""
