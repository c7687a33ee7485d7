r"""Spreads of gradients and Hessians of the cross-entropy together, as CMA needs them.

They are what `gram_statistics` computes for orders 1 and 2. For a mini-batch of few classes on a CUDA device three
Triton kernels compute them with their gradients (`_softmax_kernels.py`), where plain operations would be ninety.

Legend (see `_softmax.py`, `_domains.py`): R (n, C) shifted probabilities, a (n, 1) mass, top (n,) the likeliest class,
G (n, C) = P − Y; e = [top_i = top_j]; W (n, n) pair weights; S = X Xᵀ, plus 1 with a bias; ρ = R Rᵀ,
half = R (R²)ᵀ, g = R_i[top_j].

W and S are symmetric, so a matrix that is summed against them counts by its symmetric part alone, and the kernels
replace the inner products of second residuals by the cheaper

.. math:: F = \rho t - 2\,\mathrm{half} + 2 g\,(2 a_j + g^\top), \qquad t = \rho + 1 + 2e + 4g

The values are :math:`\sum W S\,(G G^\top)` and :math:`\sum W S^2 F`.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign import _triton
from momentalign.closed_form import _softmax_kernels as kernels
from momentalign.closed_form._gram import gram_statistics
from momentalign.closed_form._softmax import SoftmaxResiduals

if _triton.AVAILABLE:
    import triton

_CLASSES = 16
"""Largest number of classes that a program can hold in registers with a tile of pairs."""

_ROWS = 512
"""Largest batch for the kernels: products of large matrices are better left to a library."""

_BLOCK = 16
"""Rows and columns of a tile of pairs."""

_COLUMNS, _SPAN, _DEPTH = 128, 32, 64
"""Columns of X that a tile reads at a time; columns of dX that a program computes, and rows of X it reads at a time."""


def softmax_spreads(
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    bias: bool,
    divisors: tuple[float, float] = (1.0, 1.0),
) -> list[Tensor]:
    """Spread of the domains' gradients and of their Hessians, each divided by its divisor."""
    if _can_fuse(features, logits):
        inputs = features, logits, targets.contiguous(), domains.contiguous(), bias, divisors
        gradient, hessian, *_ = _FusedSoftmaxSpreads.apply(*inputs)  # type: ignore[no-untyped-call]
        return [gradient, hessian]
    return _plain_spreads(features, logits, targets, domains, bias, divisors)


def _plain_spreads(
    features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool, divisors: tuple[float, float]
) -> list[Tensor]:
    residuals = SoftmaxResiduals(logits, targets)
    spreads = gram_statistics(["spread"], [1, 2], residuals, features, domains, bias)["spread"]
    return [value if by == 1 else value / by for value, by in zip(spreads, divisors, strict=True)]


def _can_fuse(features: Tensor, logits: Tensor) -> bool:
    """Whether the kernels can be used: a mini-batch of few classes in float32 on CUDA."""
    small = len(logits) <= _ROWS and logits.shape[1] <= _CLASSES
    return small and _triton.can_use_float32(features, logits)


class _Intermediates(NamedTuple):
    """What the backward pass reads; of the gradients with respect to S and R there is one plane for each spread."""

    R: Tensor
    mass: Tensor
    top: Tensor
    gram_planes: Tensor
    residual_planes: Tensor
    mass_parts: Tensor


class _FusedSoftmaxSpreads(torch.autograd.Function):
    @staticmethod
    def forward(
        features: Tensor,
        logits: Tensor,
        targets: Tensor,
        domains: Tensor,
        bias: bool,
        divisors: tuple[float, float],
    ) -> tuple[Tensor, ...]:
        (n, C), d, X = logits.shape, features.shape[1], features.contiguous()
        tiles = triton.cdiv(n, _BLOCK)
        sizes = {"BLOCK_I": _BLOCK, "BLOCK_J": _BLOCK, "BLOCK_C": max(16, triton.next_power_of_2(C))}
        (R, G), (mass, share) = logits.new_empty(2, n, C), logits.new_empty(2, n)
        top = torch.empty_like(targets, dtype=torch.int32)
        values, dS = logits.new_empty(2, tiles * tiles), logits.new_empty(2, n, n)
        dR, dmass = logits.new_empty(tiles, 2, n, C), logits.new_empty(tiles, n)
        kernels.rows[(tiles,)](logits, targets, domains, R, G, mass, top, share, n, C, *logits.stride(), **sizes)
        kernels.pairs[tiles, tiles](
            X, R, G, mass, top, domains, share, values, dS, dR, dmass, n, d, C, *divisors,
            BIAS=int(bias), BLOCK_D=min(_COLUMNS, max(16, triton.next_power_of_2(d))), **sizes,
        )  # fmt: skip
        gradient, hessian = values.sum(1).relu_().unbind()
        return gradient, hessian, *_Intermediates(R, mass, top, dS, dR, dmass)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.bias, ctx.divisors = inputs
        _triton.save_outputs(ctx, tuple(tensors), output, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        features, logits, targets, domains, *rest = ctx.saved_tensors
        grads = _triton.zero_where_missing(logits, gradient, hessian)
        if torch.is_grad_enabled():
            spreads = _plain_spreads(features, logits, targets, domains, ctx.bias, ctx.divisors)
            return *_triton.differentiable_gradients(tuple(spreads), (features, logits), grads), None, None, None, None
        saved = _Intermediates(*rest)
        (n, C), d, X = logits.shape, features.shape[1], features.contiguous()
        dX, dlogits = torch.empty_like(X), torch.empty_like(saved.R)
        spans = triton.cdiv(d, _SPAN) if ctx.needs_input_grad[0] else 0
        kernels.finish[triton.cdiv(n, _BLOCK), spans + 1](
            X, saved.R, saved.mass, saved.top, *grads, saved.gram_planes, saved.residual_planes, saved.mass_parts,
            dX, dlogits, n, d, C, len(saved.residual_planes),
            BLOCK_I=_BLOCK, BLOCK_J=_DEPTH, BLOCK_C=max(16, triton.next_power_of_2(C)), BLOCK_D=_SPAN,
        )  # fmt: skip
        return dX if ctx.needs_input_grad[0] else None, dlogits, None, None, None, None
