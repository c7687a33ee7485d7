r"""Spreads over domains of derivatives with a decaying past, built explicitly, as momentum needs them.

Legend: v_e the derivative of domain e's mean loss in the coordinates of the direct route, :math:`s_e = v_e +
\gamma\,\mathrm{past}_e` its decayed sum, q (K,) weights that average the domains that have samples. A spread is
:math:`\sum_e q_e \|s_e - \bar s\|^2` with :math:`\bar s = \sum_e q_e s_e`. Its gradient with respect to v_e is
:math:`2 \delta_e` with the deviation :math:`\delta_e = q_e (s_e - \bar s)`, so the backward pass needs no sums.

For gradients and Hessians of the cross-entropy of few classes on a CUDA device one Triton kernel computes both spreads
and one their gradients (`_decayed_kernels.py`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign import _triton
from momentalign.closed_form import _decayed_kernels as kernels
from momentalign.closed_form._direct import direct_size, domain_coordinates
from momentalign.closed_form._domains import domain_weights, present_spread
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals

if _triton.AVAILABLE:
    import triton

_ROWS, _CLASSES, _DOMAINS = 1024, 16, 16
"""Largest batch for the kernels: a program passes over all rows, and holds the domains' tiles in registers."""

_SIZE = 2**25
"""Numbers in all domains' derivatives up to which the kernels are used."""

_FORWARD_ROWS, _FORWARD_COLUMNS = 64, 16
"""Rows that the forward kernel reads at a time, and rows and columns of its tile of a Hessian."""

_BACKWARD_ROWS, _BACKWARD_COLUMNS, _DEPTH = 16, 16, 64
"""Tile of the backward kernel, and rows of a Hessian that it reads at a time."""

_SPAN = 16
"""Columns that one backward program passes through; the parts of several are summed."""


def decayed_spreads(
    orders: Sequence[int],
    loss: type[Residuals],
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    labels: Tensor,
    past: Sequence[Tensor] | None,
    decay: float,
    *,
    bias: bool,
    divisors: Sequence[float] | None = None,
    overwrite: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    r"""Spread of :math:`s_e = v_e + \gamma\,\mathrm{past}_e` over the domains that have samples, for each order.

    Args:
        orders: Orders of the derivatives.
        loss: Residuals of the loss.
        features: Shape (n, d).
        logits: Shape (n, C).
        targets: Shape (n,), or (n, C) for squared error.
        domains: Shape (n,).
        labels: The K domains, each once; some may be without samples.
        past: For each order past sums, shape (K, N); None for no past.
        decay: Factor of the past, γ.
        bias: Whether the head has a bias.
        divisors: What each spread is divided by.
        overwrite: Whether the sums may be written to the past's memory, which saves a copy.

    Returns:
        The spreads, scalars, and detached the sums s, shape (K, N) for each order.
    """
    by = [1.0] * len(orders) if divisors is None else divisors
    if loss is SoftmaxResiduals and list(orders) == [1, 2] and _can_fuse(features, logits, labels, bias):
        return _fused_spreads(features, logits, targets, domains, labels, past, decay, bias, (by[0], by[1]), overwrite)
    weights = domain_weights(domains, labels, features.dtype)
    vectors = _vectors(orders, loss(logits, targets), features, weights, bias)
    if past is not None:
        vectors = [torch.add(now, before, alpha=decay) for now, before in zip(vectors, past, strict=True)]
    return _divided_spreads(vectors, weights, by), [vector.detach() for vector in vectors]


def _vectors(
    orders: Sequence[int], residuals: Residuals, features: Tensor, weights: Tensor, bias: bool
) -> list[Tensor]:
    return [domain_coordinates(order, residuals, features, weights, bias) for order in orders]


def _divided_spreads(vectors: list[Tensor], weights: Tensor, divisors: Sequence[float]) -> list[Tensor]:
    present = weights.sum(0) > 0
    values = [present_spread(vector @ vector.T, present) for vector in vectors]
    return [value if by == 1 else value / by for value, by in zip(values, divisors, strict=True)]


def _can_fuse(features: Tensor, logits: Tensor, labels: Tensor, bias: bool) -> bool:
    """Whether the kernels can be used: a mini-batch of few classes and domains in float32 on CUDA."""
    (n, C), K, D = logits.shape, len(labels), features.shape[1] + bias
    size = direct_size(2, SoftmaxResiduals, D, C)
    small = 0 < n <= _ROWS and 1 < C <= _CLASSES and K <= _DOMAINS and size is not None and K * size <= _SIZE
    return small and _triton.can_use_float32(features, logits)


def _fused_spreads(
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    labels: Tensor,
    past: Sequence[Tensor] | None,
    decay: float,
    bias: bool,
    divisors: tuple[float, float],
    overwrite: bool,
) -> tuple[list[Tensor], list[Tensor]]:
    C, K, D = logits.shape[1], len(labels), features.shape[1] + bias
    if past is None:
        blocks = 1 if C == 2 else C * (C + 1) // 2
        before = [logits.new_zeros(K, size) for size in (C * D, blocks * D * D)]
    else:
        before = [tensor.contiguous() for tensor in past]
    sums = before if overwrite or past is None else [torch.empty_like(tensor) for tensor in before]
    inputs = features, logits, targets.contiguous(), domains.contiguous(), labels, *before, *sums, decay, bias, divisors
    gradient, hessian, *_ = _FusedDecayedSpreads.apply(*inputs)  # type: ignore[no-untyped-call]
    return [gradient, hessian], sums


class _Intermediates(NamedTuple):
    """What the backward pass reads: deviations δ of gradients and Hessians, and each domain's weight of a sample."""

    gradients: Tensor
    hessians: Tensor
    weights: Tensor


class _FusedDecayedSpreads(torch.autograd.Function):
    """Writes the sums to its arguments of that name, which carry no gradients; they may be the past itself."""

    @staticmethod
    def forward(
        features: Tensor,
        logits: Tensor,
        targets: Tensor,
        domains: Tensor,
        labels: Tensor,
        past_gradients: Tensor,
        past_hessians: Tensor,
        gradients: Tensor,
        hessians: Tensor,
        decay: float,
        bias: bool,
        divisors: tuple[float, float],
    ) -> tuple[Tensor, ...]:
        (n, C), d, K = logits.shape, features.shape[1], len(labels)
        deviations = _Intermediates(torch.empty_like(gradients), torch.empty_like(hessians), logits.new_empty(K))
        tiles = triton.cdiv(d + bias, _FORWARD_COLUMNS)
        blocks = 1 if C == 2 else C * (C + 1) // 2
        values = logits.new_empty(2, blocks * tiles * tiles)
        kernels.spreads[tiles, 1 + blocks * tiles](
            features.contiguous(), logits, targets, domains, labels, past_gradients, past_hessians, gradients,
            hessians, *deviations, values, n, d, K, *logits.stride(), float(decay), *divisors,
            C=C, BIAS=int(bias), BLOCK_N=_FORWARD_ROWS, BLOCK_D=_FORWARD_COLUMNS,
            BLOCK_K=max(2, triton.next_power_of_2(K)), BLOCK_C=max(16, triton.next_power_of_2(C)),
        )  # fmt: skip
        gradient, hessian = values.sum(1).unbind()
        return gradient, hessian, *deviations

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.bias, ctx.divisors = inputs[-2:]
        _triton.save_outputs(ctx, inputs[:5], output, 2)  # not the sums, which are overwritten before backward

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        features, logits, targets, domains, labels, *rest = ctx.saved_tensors
        grads, saved = _triton.zero_where_missing(logits, gradient, hessian), _Intermediates(*rest)
        if torch.is_grad_enabled():
            spreads = _recomputed(features, logits, targets, domains, labels, saved, ctx.bias, ctx.divisors)
            return *_triton.differentiable_gradients(tuple(spreads), (features, logits), grads), *[None] * 10
        (n, C), d, K = logits.shape, features.shape[1], len(labels)
        spans = triton.cdiv(d + ctx.bias, _SPAN)
        dX, dlogits = features.new_empty(n, d), logits.new_empty(spans, n, C)
        kernels.slopes[triton.cdiv(n, _BACKWARD_ROWS), spans](
            features.contiguous(), logits, targets, domains, labels, *saved, *grads, dX, dlogits, n, d, K,
            *logits.stride(), *ctx.divisors,
            C=C, BIAS=int(ctx.bias), SPAN=_SPAN, BLOCK_I=_BACKWARD_ROWS, BLOCK_J=_DEPTH, BLOCK_D=_BACKWARD_COLUMNS,
            BLOCK_C=max(16, triton.next_power_of_2(C)),
        )  # fmt: skip
        whole = dlogits.sum(0) if spans > 1 else dlogits[0]
        needs = ctx.needs_input_grad
        return dX if needs[0] else None, whole if needs[1] else None, *[None] * 10


def _recomputed(
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    labels: Tensor,
    saved: _Intermediates,
    bias: bool,
    divisors: tuple[float, float],
) -> list[Tensor]:
    """The spreads in plain operations; s less its mean, from the deviations, stands for s."""
    weights = domain_weights(domains, labels, features.dtype)
    number = (saved.weights > 0).sum()
    now = _vectors([1, 2], SoftmaxResiduals(logits, targets), features, weights, bias)
    centred = [
        vector + (number * deviation - vector).detach()
        for vector, deviation in zip(now, (saved.gradients, saved.hessians), strict=True)
    ]
    return _divided_spreads(centred, weights, divisors)
