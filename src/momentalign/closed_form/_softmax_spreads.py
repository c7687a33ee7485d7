r"""Spreads of gradients and Hessians of the cross-entropy together, forward and backward written out by hand.

What `gram_statistics` computes for orders 1 and 2 of a batch that fits one tile, with one node in the autograd graph.
At the size of a mini-batch the number of operations is the cost: here about seventy instead of ninety, and four on a
CUDA device with Triton (`_softmax_kernels.py`).

Legend (see `_softmax.py`, `_second_order.py`, `_domains.py`): R (n, C) shifted probabilities, a (n, 1) mass, top (n,)
the likeliest class, G (n, C) = P − Y; e = [top_i = top_j]; W (n, n) pair weights; S = X Xᵀ, plus 1 with a bias;
ρ = R Rᵀ, half = R (R²)ᵀ, g = R_i[top_j]; stacked (3n, C) is G, R and R².

W and S are symmetric, so a matrix that meets them in a sum counts by its symmetric part alone, and F of the legend may
be replaced by the cheaper

.. math:: F' = \rho t' - 2\,\mathrm{half} + 2 g\,(2 a_j + g^\top), \qquad t' = \rho + 1 + 2e + 4g

The values are :math:`\sum W S\,(G G^\top)` and :math:`\sum W S^2 F'`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from momentalign._triton import are_single, blocks, can_use, power
from momentalign.closed_form import _softmax_kernels as kernels
from momentalign.closed_form._gram import gram_statistics
from momentalign.closed_form._softmax import SoftmaxResiduals

_CLASSES = 16
"""Classes that a program can hold in registers with a tile of pairs."""

_ROWS = 512
"""Rows up to which the kernels are used: a product of large matrices is better left to a library."""

_BLOCK = 16
"""Rows and columns of such a tile."""

_COLUMNS, _SPAN, _DEPTH = 128, 32, 64
"""Columns of X that a tile meets at a time; those of a program for dX, and rows of X that it meets at a time."""


def softmax_spreads(
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    bias: bool,
    divisors: tuple[float, float] = (1.0, 1.0),
) -> list[Tensor]:
    """Spread of the domains' gradients and of their Hessians, a scalar each, for a batch of one tile.

    Args:
        features: Shape (n, d).
        logits: Shape (n, C).
        targets: Class indices, shape (n,).
        domains: Any integers, shape (n,).
        bias: Whether the head has one.
        divisors: What each spread is divided by.

    Returns:
        The two spreads.
    """
    if _can_fuse(features, logits):
        inputs = features, logits, targets.contiguous(), domains.contiguous(), bias, divisors
        gradient, hessian, *_ = _FusedSpreads.apply(*inputs)  # type: ignore[no-untyped-call]
        return [gradient, hessian]
    gradient, hessian, *_ = _SoftmaxSpreads.apply(features, logits, targets, domains, bias)  # type: ignore[no-untyped-call]
    return [value if by == 1 else value / by for value, by in zip((gradient, hessian), divisors, strict=True)]


def _can_fuse(features: Tensor, logits: Tensor) -> bool:
    """Whether the kernels take it: float32 on CUDA, with Triton, a mini-batch, and not where a compiler does it."""
    few = logits.shape[0] <= _ROWS and logits.shape[1] <= _CLASSES
    return can_use(features) and are_single(features, logits) and few


def _spread_weights(domains: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights W (n, n) under which a sample Gram sums to the spread of the domain Gram."""
    together = domains[:, None] == domains
    u = together.sum(1, dtype=dtype).reciprocal()
    number = u.sum().round()
    v = u / number
    return torch.outer(v, v) * (together * number - 1)


class _SoftmaxSpreads(torch.autograd.Function):
    @staticmethod
    def forward(features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool) -> tuple[Tensor, ...]:
        P, top = logits.softmax(1), logits.argmax(1)
        place, right = top[:, None], targets.long()[:, None]
        others = P.scatter(1, place, 0.0)
        mass = others.sum(1, keepdim=True)
        R = others.scatter(1, place, -mass)
        # P − Y: at the target R is p − 1 already where the target is the likeliest class, and p elsewhere.
        G = P.scatter(1, right, torch.add(R.gather(1, right), place != right, alpha=-1))
        stacked = torch.cat([G, R, R.square()])
        rho, half = (R @ stacked[len(R) :].T).chunk(2, dim=1)
        g = R.index_select(1, top)
        t = torch.add(torch.add(rho, place == top, alpha=2), g, alpha=4) + 1
        F = torch.addcmul(torch.sub(rho * t, half, alpha=2), g, torch.add(g.T, mass.T, alpha=2), value=2)
        GG = G @ G.T
        W = _spread_weights(domains, features.dtype)
        S = features @ features.T
        first = torch.addcmul(W, W, S) if bias else W * S
        second = torch.addcmul(first, first, S) if bias else first * S
        gradient, hessian = torch.dot(first.flatten(), GG.flatten()), torch.dot(second.flatten(), F.flatten())
        return gradient, hessian, P, top, mass, stacked, rho, g, t, F, GG, W, first, second

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        return _derive(ctx, gradient, hessian, _slopes)


class _FusedSpreads(torch.autograd.Function):
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
        tiles, sizes = blocks(n, _BLOCK), {"BLOCK_I": _BLOCK, "BLOCK_J": _BLOCK, "BLOCK_C": power(C, 16)}
        (R, G), (mass, share) = logits.new_empty(2, n, C), logits.new_empty(2, n)
        top = torch.empty_like(targets, dtype=torch.int32)
        values, dS = logits.new_empty(2, tiles * tiles), logits.new_empty(2, n, n)
        dR, dmass = logits.new_empty(tiles, 2, n, C), logits.new_empty(tiles, n)
        kernels.rows[(tiles,)](logits, targets, domains, R, G, mass, top, share, n, C, *logits.stride(), **sizes)
        kernels.pairs[tiles, tiles](
            X, R, G, mass, top, domains, share, values, dS, dR, dmass, n, d, C, *divisors,
            BIAS=int(bias), BLOCK_D=min(_COLUMNS, power(d, 16)), **sizes,
        )  # fmt: skip
        gradient, hessian = values.sum(1).unbind()
        return gradient, hessian, R, mass, top, dS, dR, dmass

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.divisors = inputs[-1]
        _keep(ctx, inputs[:-1], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            gradient, hessian = (
                None if grad is None else grad / by for grad, by in zip((gradient, hessian), ctx.divisors, strict=True)
            )
        return *_derive(ctx, gradient, hessian, _fused_slopes), None


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Behind the two spreads a forward pass returns what its backward pass reads."""
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)
    *tensors, ctx.bias = inputs
    ctx.save_for_backward(*tensors, *output[2:])


_Slopes = Callable[[Any, tuple[Tensor, ...], Tensor, Tensor], tuple[Tensor | None, Tensor | None]]


def _derive(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, slopes: _Slopes) -> tuple[Any, ...]:
    """Gradients of all arguments; `slopes` gives those of features and logits."""
    if gradient is None and hessian is None:
        return None, None, None, None, None
    # One of them may be left out of the loss; a zero in its place is rare enough not to need formulas of its own.
    gradient = torch.zeros_like(hessian) if gradient is None else gradient  # type: ignore[arg-type]
    hessian = torch.zeros_like(gradient) if hessian is None else hessian
    tensors = ctx.saved_tensors
    if torch.is_grad_enabled():
        features, logits, targets, domains, *_ = tensors
        return *_derive_again((features, logits), targets, domains, ctx.bias, (gradient, hessian)), None, None, None
    return *slopes(ctx, tensors, gradient, hessian), None, None, None


def _slopes(
    ctx: Any, tensors: tuple[Tensor, ...], gradient: Tensor, hessian: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    features, _, _, _, *saved = tensors
    dfeatures = _features_gradient(features, saved, gradient, hessian) if ctx.needs_input_grad[0] else None
    dlogits = _logits_gradient(saved, gradient, hessian) if ctx.needs_input_grad[1] else None
    return dfeatures, dlogits


def _fused_slopes(
    ctx: Any, tensors: tuple[Tensor, ...], gradient: Tensor, hessian: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    features, logits, _, _, R, mass, top, dS, dR, dmass = tensors
    (n, C), d, X = logits.shape, features.shape[1], features.contiguous()
    dX, dlogits = torch.empty_like(X), torch.empty_like(R)
    spans = blocks(d, _SPAN) if ctx.needs_input_grad[0] else 0
    kernels.finish[blocks(n, _BLOCK), spans + 1](
        X, R, mass, top, gradient, hessian, dS, dR, dmass, dX, dlogits, n, d, C, len(dR),
        BLOCK_I=_BLOCK, BLOCK_J=_DEPTH, BLOCK_C=power(C, 16), BLOCK_D=_SPAN,
    )  # fmt: skip
    return dX if ctx.needs_input_grad[0] else None, dlogits


def _features_gradient(features: Tensor, saved: list[Tensor], gradient: Tensor, hessian: Tensor) -> Tensor:
    *_, F, GG, W, first, _second = saved
    dS = torch.addcmul(W * GG * gradient, first * F, hessian, value=2)
    return (dS + dS.T) @ features


def _logits_gradient(saved: list[Tensor], gradient: Tensor, hessian: Tensor) -> Tensor:
    P, top, mass, stacked, rho, g, t, *_, first, second = saved
    place, R, B = top[:, None], stacked[len(P) : 2 * len(P)], second * hessian
    through_rho = B * (t + rho)
    left = torch.cat([first * (2 * gradient), through_rho + through_rho.T, -2 * B], 1)
    dR = (left @ stacked).addcmul_(R, B @ R, value=-4)
    dR.index_add_(1, top, B * (rho + (g.T + mass.T)), alpha=4)
    dmass = torch.mul(B, g).sum(0)[:, None]
    # Of R and the mass to P, as in `_shifted_softmax.py`: zero at the likeliest class, so that nothing cancels.
    dP = (dR - torch.sub(dR.gather(1, place), dmass, alpha=4)).scatter(1, place, 0.0)
    gradient_of_logits: Tensor = torch.ops.aten._softmax_backward_data(dP, P, 1, P.dtype)
    return gradient_of_logits


def _derive_again(
    inputs: tuple[Tensor, Tensor], targets: Tensor, domains: Tensor, bias: bool, grads: tuple[Tensor, Tensor]
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated once more, by autograd through the definition."""
    features, logits = inputs
    residuals = SoftmaxResiduals(logits, targets)
    spreads = gram_statistics(["spread"], [1, 2], residuals, features, domains, bias)["spread"]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(torch.autograd.grad(spreads, wanted, grads, create_graph=True))
    return tuple(next(found) if tensor.requires_grad else None for tensor in inputs)
