"""The pairwise route of the published method, for comparison: `auto` never chooses it."""

import torch
from torch import Tensor

from momentalign.closed_form._direct import with_constant
from momentalign.closed_form._heads import Residuals

_ENTRIES = 2**24


def pairwise_gram(order: int, residuals: Residuals, features: Tensor, bias: bool) -> Tensor:
    """Inner products (n, n) of derivatives of order 1 or 2, by traces of C x C and d x d matrices for every pair."""
    X = with_constant(features, bias)
    if order == 1:
        return (residuals.gradient @ residuals.gradient.T) * (X @ X.T)
    identity = torch.eye(residuals.gradient.shape[1], dtype=X.dtype, device=X.device)
    A = torch.stack([residuals.hessian_times(row.expand_as(residuals.gradient)) for row in identity], 1)
    step = max(1, _ENTRIES // max(A.shape[1], X.shape[1]) ** 2)
    blocks = list(zip(A.split(step), X.split(step), strict=True))
    rows = [torch.cat([_traces(a, b) * _traces(_outer(x), _outer(z)) for b, z in blocks], 1) for a, x in blocks]
    return torch.cat(rows)


def _outer(X: Tensor) -> Tensor:
    return X[:, :, None] * X[:, None, :]


def _traces(left: Tensor, right: Tensor) -> Tensor:
    return torch.einsum("iab,jba->ij", left, right)
