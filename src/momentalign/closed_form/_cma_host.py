"""Calls of the Triton kernels of CMA, for mini-batches of few classes in float32 on CUDA.

A ColoredMNIST run takes 7% longer with `torch.compile` instead, 15% with momentum (H200, benchmarks/kernels.py).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from momentalign import _triton
from momentalign.closed_form import _cma_kernels as kernels
from momentalign.closed_form._softmax import diagonal_blocks, incidence

if _triton.AVAILABLE:
    import triton

ROWS, _DECAYED_ROWS, CLASSES, _DOMAINS = 512, 1024, 16, 16
"""Largest batches for the kernels: a program holds classes and domains in registers and passes over all rows."""

_SIZE = 2**25
"""Numbers in all domains' Hessians up to which the kernels are used."""

_BLOCK, _COLUMNS, _SPAN, _DEPTH = 16, 128, 32, 64
"""Rows of a tile; columns of X that a tile of pairs reads; columns of dX of a program, and rows that it reads."""

_FORWARD_ROWS, _DECAYED_COLUMNS = 64, 16
"""With momentum: rows that the forward kernel reads at a time; columns of a tile, and of a backward program."""


def can_fuse_decayed(features: Tensor, logits: Tensor, labels: Tensor, bias: bool) -> bool:
    """Whether the kernels with momentum can be used."""
    C, K, D = logits.shape[1], len(labels), features.shape[1] + bias
    fits = K <= _DOMAINS and K * C * (C - 1) // 2 * D**2 <= _SIZE
    small = fits and len(logits) <= _DECAYED_ROWS and C <= CLASSES
    return small and _triton.can_use_float32(features, logits)


Plain = Callable[..., tuple[Tensor, Tensor]]
"""The spreads in plain operations, for second derivatives."""


class FusedSpreads(torch.autograd.Function):
    """Spreads of the gradients and of the Hessians of a batch."""

    @staticmethod
    def forward(
        features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool, plain: Plain
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
            X, R, G, mass, top, domains, share, values, dS, dR, dmass, n, d, C,
            BIAS=int(bias), BLOCK_D=min(_COLUMNS, max(16, triton.next_power_of_2(d))), **sizes,
        )  # fmt: skip
        return *values.sum(1).relu_().unbind(), R, mass, top, dS, dR, dmass

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.bias, ctx.plain = inputs
        _triton.save_outputs(ctx, tuple(tensors), output, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        features, logits, targets, domains, R, mass, top, dS, dR, dmass = ctx.saved_tensors
        grads = _triton.zero_where_missing(logits, gradient, hessian)
        if torch.is_grad_enabled():
            spreads = ctx.plain(features, logits, targets, domains, ctx.bias)
            return *_triton.differentiable_gradients(spreads, (features, logits), grads), *[None] * 4
        (n, C), d, X = logits.shape, features.shape[1], features.contiguous()
        dX, dlogits = torch.empty_like(X), torch.empty_like(R)
        spans = triton.cdiv(d, _SPAN) if ctx.needs_input_grad[0] else 0
        kernels.finish[triton.cdiv(n, _BLOCK), spans + 1](
            X, R, mass, top, *grads, dS, dR, dmass, dX, dlogits, n, d, C, len(dR),
            BLOCK_I=_BLOCK, BLOCK_J=_DEPTH, BLOCK_C=max(16, triton.next_power_of_2(C)), BLOCK_D=_SPAN,
        )  # fmt: skip
        return dX if ctx.needs_input_grad[0] else None, dlogits, *[None] * 4


class FusedDecayedSpreads(torch.autograd.Function):
    """Spreads of decayed sums of gradients (K, C, D) and of Hessians' blocks (K, q, D, D), which are written to."""

    @staticmethod
    def forward(
        features: Tensor,
        logits: Tensor,
        targets: Tensor,
        domains: Tensor,
        labels: Tensor,
        past: list[Tensor],
        sums: list[Tensor],
        decay: float,
        bias: bool,
        plain: Plain,
    ) -> tuple[Tensor, ...]:
        (n, C), d, K = logits.shape, features.shape[1], len(labels)
        deviations, weights = [torch.empty_like(each) for each in sums], logits.new_empty(K)
        tiles, blocks = triton.cdiv(d + bias, _DECAYED_COLUMNS), sums[1].shape[1]
        values = logits.new_empty(2, blocks * tiles * tiles)
        kernels.spreads[tiles, 1 + blocks * tiles](
            features.contiguous(), logits, targets, domains, labels, *past, *sums, *deviations, weights, values,
            n, d, K, *logits.stride(), float(decay), C=C, BIAS=int(bias), BLOCK_N=_FORWARD_ROWS,
            BLOCK_D=_DECAYED_COLUMNS, BLOCK_K=max(2, triton.next_power_of_2(K)),
            BLOCK_C=max(16, triton.next_power_of_2(C)),
        )  # fmt: skip
        gradient, squares = values.sum(1).unbind()
        if C == 2:
            return gradient, 4 * squares, *deviations, weights
        diagonal = diagonal_blocks(deviations[1], C)
        return gradient, 2 * squares + (weights > 0).sum() * diagonal.square().sum(), *deviations, weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.bias, ctx.plain = inputs[-2:]
        _triton.save_outputs(ctx, inputs[:5], output, 2)  # not the sums, which are overwritten before backward

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        features, logits, targets, domains, labels, *deviations, weights = ctx.saved_tensors
        grads = _triton.zero_where_missing(logits, gradient, hessian)
        if torch.is_grad_enabled():
            # A sum less the domains' mean stands for the sum.
            centred = [(weights > 0).sum() * deviation for deviation in deviations]
            spreads = ctx.plain(features, logits, targets, domains, labels, centred, ctx.bias)
            return *_triton.differentiable_gradients(spreads, (features, logits), grads), *[None] * 8
        (n, C), d, K = logits.shape, features.shape[1], len(labels)
        towards = 4 * deviations[1]
        if C > 2:
            through = incidence(C, logits).T @ diagonal_blocks(deviations[1], C)
            towards = torch.add(through.view_as(towards), deviations[1], alpha=2)
        spans = triton.cdiv(d + ctx.bias, _DECAYED_COLUMNS)
        dX, dlogits = features.new_empty(n, d), logits.new_empty(spans, n, C)
        kernels.slopes[triton.cdiv(n, _BLOCK), spans](
            features.contiguous(), logits, targets, domains, labels, deviations[0], towards, weights, *grads, dX,
            dlogits, n, d, K, *logits.stride(), C=C, BIAS=int(ctx.bias), SPAN=_DECAYED_COLUMNS, BLOCK_I=_BLOCK,
            BLOCK_J=_DEPTH, BLOCK_D=_DECAYED_COLUMNS, BLOCK_C=max(16, triton.next_power_of_2(C)),
        )  # fmt: skip
        needs = ctx.needs_input_grad
        return dX if needs[0] else None, dlogits.sum(0) if needs[1] else None, *[None] * 8
