"""The frugal route of the published method: traces for every pair of samples, from C x C and d x d matrices.

Kept to compare with: it gives the numbers of the other routes at a higher price, and `auto` never chooses it.
"""

from collections.abc import Collection

import torch
from torch import Tensor

from momentalign.closed_form._direct import with_constant
from momentalign.closed_form._heads import Residuals

_ENTRIES = 2**24


def pairwise_grams(orders: Collection[int], residuals: Residuals, features: Tensor, bias: bool) -> dict[int, Tensor]:
    """Sample Gram of orders 1 and 2 by explicit traces, shape (n, n) for each order."""
    X = with_constant(features, bias)
    grams = {}
    if 1 in orders:
        grams[1] = (residuals.gradient @ residuals.gradient.T) * (X @ X.T)
    if 2 in orders:
        A = _second_residuals(residuals)
        step = max(1, _ENTRIES // max(A.shape[1], X.shape[1]) ** 2)
        blocks = list(zip(A.split(step), X.split(step), strict=True))
        rows = [torch.cat([_traces(a, b) * _traces(_outer(x), _outer(z)) for b, z in blocks], 1) for a, x in blocks]
        grams[2] = torch.cat(rows)
    return grams


def _second_residuals(residuals: Residuals) -> Tensor:
    """The matrices A, shape (n, C, C)."""
    like = residuals.gradient
    identity = torch.eye(like.shape[1], dtype=like.dtype, device=like.device)
    return torch.stack([residuals.hessian_times(row.expand_as(like)) for row in identity], 1)


def _outer(X: Tensor) -> Tensor:
    return X[:, :, None] * X[:, None, :]


def _traces(left: Tensor, right: Tensor) -> Tensor:
    return torch.einsum("iab,jba->ij", left, right)
