r"""The direct route: each domain's derivative built explicitly, in coordinates of the same norm.

A gradient is C x d. A Hessian of the cross-entropy is C(C−1)/2 weighted second moments of the features, one for
two classes: the rows of A = diag(p) − ppᵀ sum to zero, so its diagonal blocks follow from the others. Nothing
is built per sample. Best where n is much larger than d·C.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals

DIRECT_LIMIT = 2**28
"""Numbers in one domain's derivative beyond which the route refuses: 1 GiB in float32."""

ROWS_ENTRIES = 2**26
"""Entries of the factor before the last product up to which all rows are multiplied at once."""


def with_constant(features: Tensor, bias: bool) -> Tensor:
    """Features with the constant one that stands for the head's bias as the last column."""
    return torch.cat([features, features.new_ones(len(features), 1)], 1) if bias else features


def direct_size(order: int, residuals: type[Residuals], dimension: int, classes: int) -> int | None:
    """Size of one domain's derivative, None where this route cannot build it."""
    if order == 1:
        return classes * dimension
    if residuals is SoftmaxResiduals:
        blocks = 1 if classes == 2 else classes * (classes + 1) // 2
        return blocks * dimension**2 if order == 2 else None
    return int(dimension**order)


def domain_coordinates(order: int, residuals: Residuals, features: Tensor, weights: Tensor, bias: bool) -> Tensor:
    """Derivatives of the domains' losses as rows (K, N) with the same inner products.

    `weights` (n, K) average the samples of each domain.
    """
    blocks = _weighted_moments(order, residuals, features, weights, bias)
    return torch.stack([residuals.isometric(order, block).flatten() for block in blocks])


def domain_tensors(order: int, residuals: Residuals, features: Tensor, weights: Tensor, bias: bool) -> Tensor:
    """Derivatives of the domains' losses as tensors (K, Cd, …, Cd) over the flattened head.

    Entry (c, k) of the head has index c·d + k; with a bias d counts it, as the last k.
    """
    blocks = _weighted_moments(order, residuals, features, weights, bias)
    size = residuals.gradient.shape[1] * (features.shape[1] + bias)
    return torch.stack([residuals.dense(order, block).reshape([size] * order) for block in blocks])


def _weighted_moments(order: int, residuals: Residuals, features: Tensor, weights: Tensor, bias: bool) -> list[Tensor]:
    """For each domain the sums Σ_i w_i c_i x_i^{⊗r} over its coefficients c (n, q), shape (q, d, …, d)."""
    X = with_constant(features, bias)
    coefficients = residuals.coefficients(order)
    q, d = coefficients.shape[1], X.shape[1]

    def moments(c: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        left = (c * weight[:, None]).T  # (q, n), then (q·d^(r−1), n)
        for _ in range(order - 1):
            left = (left[:, None, :] * x.T).flatten(0, 1)
        return (left @ x).reshape(q, *[d] * order)

    # Before the last product a row takes q·d^(r−1) numbers: many rows are split, and recomputed in backward.
    rows = max(1, ROWS_ENTRIES // (q * d ** (order - 1)))
    if len(X) <= rows:
        return [moments(coefficients, X, weight) for weight in weights.T]
    blocks = list(zip(coefficients.split(rows), X.split(rows), weights.split(rows), strict=True))
    totals = []
    for domain in range(weights.shape[1]):
        parts = [
            checkpoint(moments, c, x, w[:, domain], use_reentrant=False, preserve_rng_state=False) for c, x, w in blocks
        ]
        totals.append(torch.stack(parts).sum(0))
    return totals
