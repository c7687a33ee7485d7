r"""The direct route: each domain's derivative built explicitly, from the fewest numbers that determine it.

A gradient is C x d. A Hessian of the cross-entropy is C(C−1)/2 weighted second moments of the features: the rows of
A = diag(p) − ppᵀ sum to zero, so its diagonal blocks follow from the others. Nothing is built per sample.
Best where n is much larger than d·C.
"""

from math import prod

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals

DIRECT_LIMIT = 2**28
"""Numbers in one domain's derivative beyond which the route refuses: 1 GiB in float32."""

_ENTRIES = 2**26
"""Entries of the factors before the last product up to which all rows are multiplied at once."""


def with_constant(features: Tensor, bias: bool) -> Tensor:
    """Features with the constant one that stands for the head's bias as the last column."""
    return torch.cat([features, features.new_ones(len(features), 1)], 1) if bias else features


def blocks_shape(order: int, residuals: type[Residuals], dimension: int, classes: int) -> tuple[int, ...]:
    """Shape of the numbers that determine one domain's derivative, without one where this route cannot build it."""
    if order == 1:
        return classes, dimension
    if residuals is not SoftmaxResiduals:
        return 1, *[dimension] * order
    return (classes * (classes - 1) // 2, dimension, dimension) if order == 2 else ()


def direct_size(order: int, residuals: type[Residuals], dimension: int, classes: int) -> int | None:
    """Size of one domain's derivative, None where this route cannot build it."""
    shape = blocks_shape(order, residuals, dimension, classes)
    return prod(shape) if shape else None


def domain_tensors(order: int, residuals: Residuals, features: Tensor, weights: Tensor, bias: bool) -> Tensor:
    """Derivatives of the domains' losses as tensors (K, Cd, …, Cd) over the flattened head.

    Entry (c, k) of the head has index c·d + k; with a bias d counts it, as the last k.
    """
    blocks = domain_blocks(order, residuals, features, weights, bias)
    size = residuals.gradient.shape[1] * (features.shape[1] + bias)
    return torch.stack([residuals.dense(order, block).reshape([size] * order) for block in blocks])


def domain_blocks(order: int, residuals: Residuals, features: Tensor, weights: Tensor, bias: bool) -> Tensor:
    """Sums Σ_i w_i c_i x_i^{⊗r} over the coefficients c (n, q), which determine the derivatives: (K, q, d, …, d).

    `weights` (n, K) average the samples of each domain.
    """
    X = with_constant(features, bias)
    coefficients = residuals.coefficients(order)
    q, d = coefficients.shape[1], X.shape[1]

    def moments(c: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        left = (c * weight[:, None]).T  # (q, n), then (q·d^(r−1), n)
        for _ in range(order - 1):
            left = (left[:, None, :] * x.T).flatten(0, 1)
        return (left @ x).reshape(q, *[d] * order)

    # Before the last product a row takes q·d^(r−1) numbers: many rows are split, and recomputed in backward.
    step = max(1, _ENTRIES // (q * d ** (order - 1) * weights.shape[1]))
    domains = []
    for weight in weights.T:
        c, x = coefficients, X
        if weight.is_cpu and can_read_values(weight):  # the rows of the domain alone
            own = weight.nonzero()[:, 0]
            c, x, weight = c[own], x[own], weight[own]
        if len(x) <= step:
            domains.append(moments(c, x, weight))
            continue
        parts = [
            checkpoint(moments, *part, use_reentrant=False, preserve_rng_state=False)
            for part in zip(c.split(step), x.split(step), weight.split(step), strict=True)
        ]
        domains.append(torch.stack(parts).sum(0))
    return torch.stack(domains)


def can_read_values(tensor: Tensor) -> bool:
    """Whether values can be read back from the device: not while tracing, compiling or capturing."""
    if type(tensor) is not Tensor or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
