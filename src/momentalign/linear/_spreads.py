r"""Spread over domains of the derivatives of one order, as a function of the residual coordinates, and its derivative.

Two ways to the same number. *Direct*: add up each domain's derivative :math:`D_e = \sum_i u_i S_i \otimes x_i^{\otimes
r}`, then contract the spread's derivative :math:`B_e = \frac2K M (D_e - \bar D)` with each row. At order 2 both are one
product of n·d² per coordinate, block by block, and nothing of size n·d² is stored. *Kernel*:

.. math:: \mathrm{spread} = \sum_{ij} k_{ij}\, S_i M S_j^\top,\qquad
          k_{ij} = \frac{u_i u_j}{K}\Big(\mathrm{same}_{ij} - \frac1K\Big)(x_i\cdot x_j)^r

with k computed once, since features are fixed: one product k S, n²·q whatever d. For Hessians of wide features or many
classes.

Legend: X (b, d) block of rows, S (b, q) its coordinates, u (b,) its shares, D (K, q, d, …) derivatives.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg.blas import dtrmm

from momentalign._types import Array
from momentalign.linear._losses import HeadLoss
from momentalign.linear._rows import SortedRows, blocks

KERNEL_ENTRIES = 2**28
"""Largest number of entries of k: 2 GiB, 16,384 rows; and of the domains' derivatives where k is not larger."""

Spread = Callable[[Array], tuple[float, Array]]
"""Spread of the coordinates S (n, q), and its derivative by S."""


def second_moments(X: Array, S: Array) -> Array:
    """Σ_i S_i x_i x_iᵀ for coordinates that are not negative, (q, d, d)."""
    d = X.shape[1]
    moments = np.zeros((S.shape[1], d, d))
    for block in blocks(len(X), d):
        # BLAS computes only half of a matrix times its own transpose.
        Y = np.sqrt(S[block]).T[:, :, None] * X[block]
        moments += np.matmul(Y.transpose(0, 2, 1), Y)
    return moments


def quadratic_forms(X: Array, B: Array) -> Array:
    """x_iᵀ B x_i for symmetric B (q, d, d), shape (b, q)."""
    q, d = B.shape[:2]
    forms = np.empty((len(X), q))
    if q == 1:
        # From the lower triangle alone: a triangular product takes half the work.
        lower = 2.0 * np.tril(B[0], -1) + np.diag(B[0].diagonal())
    else:
        wide = np.moveaxis(B, 0, 1).reshape(d, -1)
    for block in blocks(len(X), d):
        x = X[block]
        products = dtrmm(1.0, lower.T, x.T).T[:, None] if q == 1 else (x @ wide).reshape(len(x), q, d)
        forms[block] = np.einsum("bqd,bd->bq", products, x)
    return forms


def direct_spread(order: int, loss: HeadLoss, rows: SortedRows) -> Spread:
    """The spread of order 1 or 2 from the domains' derivatives."""
    u, K = rows.shares[:, None], rows.number

    def spread(S: Array) -> tuple[float, Array]:
        weighted = S * u
        pairs = [(rows.X[part], weighted[part]) for part in rows.parts]
        D = np.stack([second_moments(X, W) if order == 2 else W.T @ X for X, W in pairs])
        centred = (D - D.mean(0)).reshape(K, D.shape[1], -1)
        raised = np.moveaxis(loss.metric(order, np.moveaxis(centred, 1, 2)), 2, 1)
        contracted = [
            quadratic_forms(X, B) if order == 2 else X @ B.T
            for (X, _), B in zip(pairs, raised.reshape(D.shape), strict=True)
        ]
        return float(np.vdot(centred, raised)) / K, np.concatenate(contracted) * (2.0 / K * u)

    return spread


def kernel_spread(order: int, loss: HeadLoss, rows: SortedRows) -> Spread:
    """The spread of an order through the matrix k."""
    K, u = rows.number, rows.shares
    kernel = (rows.X @ rows.X.T) ** order
    for part in rows.parts:
        kernel[part] *= -1.0 / K
        kernel[part, part] *= 1.0 - K
    kernel *= u / K
    kernel *= u[:, None]

    def spread(S: Array) -> tuple[float, Array]:
        half = loss.metric(order, kernel @ S)
        return float(np.vdot(S, half)), 2.0 * half

    return spread


def make_spread(order: int, loss: HeadLoss, rows: SortedRows) -> Spread:
    """Choose the cheaper way for an order."""
    (n, d), q = rows.X.shape, loss.pairs
    # Flops; a product with few columns is bound by memory, as if it had eight.
    slow = 3 * n * d**2 * q > 2 * n**2 * max(q, 8) or rows.number * q * d**2 > KERNEL_ENTRIES
    if order == 2 and slow and n**2 <= KERNEL_ENTRIES:
        return kernel_spread(order, loss, rows)
    return direct_spread(order, loss, rows)
