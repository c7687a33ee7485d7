r"""Spreads over domains of gradients and of Hessian-gradient products.

Legend: X (n, d) features, S = X Xᵀ, plus 1 with a bias; R (n, C) residuals, A the second residual of a sample; own,
share and the number of domains as in `_domains.py`; W (n, n) = share_i (own_ij − share_j), under which a Gram matrix of
samples sums to the spread of their domains' means.

A domain's gradient is :math:`g_e = \sum_i u_i R_i x_i^\top`. A sample meets its own in :math:`t = (S \circ own) R`, so
with :math:`V_i = A_i t_i` the product is :math:`v_e = H_e g_e = \sum_i u_i V_i x_i^\top`, and the spreads are
:math:`\sum R \circ (W \circ S) R` and :math:`\sum V \circ (W \circ S) V`: matrices n x n, none of size dC.

For the cross-entropy of few classes forward and backward are written out by hand. There V = P ∘ t̃ with
:math:`\tilde t_c = \sum_k p_k (t_c - t_k)`, differences first, so that nothing cancels next to one-hot, and the
derivative of :math:`\langle \delta, A t\rangle` with respect to P is :math:`\tilde t \circ \tilde\delta`, up to a
constant that a softmax does not notice. On a CUDA device with Triton that is seven operations for a mini-batch
(`_product_kernels.py`).
"""

from typing import Any

import torch
from torch import Tensor

from momentalign._triton import are_single, blocks, can_use, power
from momentalign.closed_form import _product_kernels as kernels
from momentalign.closed_form._domains import averages
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals
from momentalign.closed_form._softmax_gradient import subtract_targets

_ENTRIES = 2**16
"""Differences between a sample's classes, of all samples together, up to which they are formed."""

_ROWS = 2048
"""Rows up to which the kernels are used: a program goes over all of them."""

_CLASSES = 16
"""Classes that a program can hold in registers with a tile of pairs."""

_BLOCK = 16
"""Rows and columns of such a tile."""


def product_spreads(
    loss: type[Residuals],
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    *,
    bias: bool,
    center: str = "mean",
) -> tuple[Tensor, Tensor]:
    r"""Spread of the domains' gradients, and mean squared distance of their Hessian-gradient products from a center.

    Args:
        loss: Residuals of the loss.
        features: Shape (n, d).
        logits: Shape (n, C).
        targets: As the loss takes them.
        domains: Any integers, shape (n,).
        bias: Whether the head has one.
        center: `"mean"` of the products, or `"product"`: :math:`\bar H \bar g`, detached.

    Returns:
        Two scalars.
    """
    by_hand = loss is SoftmaxResiduals and center == "mean"
    if by_hand and _can_fuse(features, logits):
        inputs = features, logits, targets.contiguous(), domains.contiguous(), bias
        gradient, hessian, *_ = _FusedSpreads.apply(*inputs)  # type: ignore[no-untyped-call]
        return gradient, hessian
    if by_hand and logits.numel() * logits.shape[1] <= _ENTRIES:
        values, *_ = _ProductSpreads.apply(features, logits, targets, domains, bias)  # type: ignore[no-untyped-call]
        gradient, hessian = values.unbind()
        return gradient, hessian
    return _by_definition(loss(logits, targets), features, domains, bias, center)


def _by_definition(residuals: Residuals, X: Tensor, domains: Tensor, bias: bool, center: str) -> tuple[Tensor, Tensor]:
    """Any loss, either center, through autograd."""
    R = residuals.gradient
    own, _, _, share = averages(domains, X.dtype)
    S = X @ X.T + int(bias)
    inside = S * own
    between = S * (share[:, None] * (own - share))
    V = residuals.hessian_times(inside @ R)
    gradient = (R * (between @ R)).sum()
    if center == "mean":
        return gradient, (V * (between @ V)).sum()
    # Three sums of one form, so that they cancel exactly where there is one domain.
    pooled = residuals.hessian_times((S * share) @ R).detach()
    squares = (share[:, None] * V * (inside @ V)).sum()
    with_center = (share[:, None] * V * (((X @ X.detach().T + int(bias)) * share) @ pooled)).sum()
    return gradient, squares - 2 * with_center + (share[:, None] * pooled * ((S.detach() * share) @ pooled)).sum()


class _ProductSpreads(torch.autograd.Function):
    @staticmethod
    def forward(features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool) -> tuple[Tensor, ...]:
        P, S = logits.softmax(1), features @ features.T
        R = subtract_targets(P, targets)
        own, _, _, share = averages(domains, features.dtype)
        W = share[:, None] * (own - share)
        inside, between = (torch.addcmul(each, each, S) if bias else each * S for each in (own, W))
        t = _less_mean(inside @ R, P)
        both = torch.cat([R, P * t], 1)  # R and V side by side
        products = between @ both
        values = (products * both).unflatten(1, (2, -1)).sum((0, 2))
        return values, P, own, W, inside, t, both, products

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        *tensors, ctx.bias = inputs
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        if grad is None:
            return None, None, None, None, None
        features, logits, targets, domains, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_derive_again(features, logits, targets, domains, ctx.bias, grad), None, None, None
        P, own, W, inside, t, both, products = saved
        # Gradients with respect to R, V and t are carried without the 2 of a square's derivative.
        dR, dV = (products.unflatten(1, (2, -1)) * grad[:, None]).unbind(1)
        dV = _less_mean(dV, P)
        dt = P * dV
        dfeatures = dlogits = None
        if ctx.needs_input_grad[0]:
            weighted = (both.unflatten(1, (2, -1)) * grad[:, None]).flatten(1)
            dS = torch.addcmul(W * (weighted @ both.T), own, dt @ both[:, : P.shape[1]].T, value=2)
            dfeatures = (dS + dS.T) @ features
        if ctx.needs_input_grad[1]:
            dP = torch.addcmul(torch.addmm(dR, inside.T, dt, beta=2, alpha=2), t, dV, value=2)
            dlogits = P * _less_mean(dP, P)
        return dfeatures, dlogits, None, None, None


class _FusedSpreads(torch.autograd.Function):
    @staticmethod
    def forward(features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool) -> tuple[Tensor, ...]:
        n, C = logits.shape
        R, G, T, V, E, D, Q = torch.empty(7, n, C, device=logits.device)
        mass, share = torch.empty(2, n, device=logits.device)
        top = torch.empty(n, dtype=torch.int32, device=logits.device)
        tiles, width = blocks(n, _BLOCK), _width(C)
        values = torch.empty(2, tiles, device=logits.device)
        S = features @ features.T
        kernels.rows[(tiles,)](logits, targets, domains, R, G, mass, top, share, n, C, *logits.stride(), **width)
        common = S, R, G, mass, top, domains, share
        kernels.products[(tiles,)](*common, T, V, n, C, BIAS=int(bias), **width)
        kernels.spreads[(tiles,)](*common, V, E, D, Q, values, n, C, BIAS=int(bias), **width)
        gradient, hessian = values.sum(1).unbind()
        return gradient, hessian, S, R, G, mass, top, share, T, V, E, D, Q

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        *tensors, ctx.bias = inputs
        ctx.save_for_backward(*tensors, *output[2:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        if gradient is None and hessian is None:
            return None, None, None, None, None
        gradient = torch.zeros_like(hessian) if gradient is None else gradient  # type: ignore[arg-type]
        hessian = torch.zeros_like(gradient) if hessian is None else hessian
        features, logits, targets, domains, S, R, G, mass, top, share, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():
            grad = torch.stack([gradient, hessian])
            return *_derive_again(features, logits, targets, domains, ctx.bias, grad), None, None, None
        n, C = logits.shape
        dS, dlogits = torch.empty_like(S), torch.empty_like(R)
        common = S, R, G, mass, top, domains, share
        kernels.slopes[(blocks(n, _BLOCK),)](
            *common, *saved, gradient, hessian, dS, dlogits, n, C, BIAS=int(ctx.bias), **_width(C)
        )
        return dS @ features if ctx.needs_input_grad[0] else None, dlogits, None, None, None


def _can_fuse(features: Tensor, logits: Tensor) -> bool:
    """Whether the kernels take it: float32 on CUDA, with Triton, a mini-batch, and not where a compiler does it."""
    few = logits.shape[0] <= _ROWS and logits.shape[1] <= _CLASSES
    return can_use(features) and are_single(features, logits) and few


def _width(C: int) -> dict[str, int]:
    """Sizes of a program's blocks."""
    return {"BLOCK_I": _BLOCK, "BLOCK_J": _BLOCK, "BLOCK_C": power(C, 16)}


def _derive_again(
    features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool, grad: Tensor
) -> list[Tensor | None]:
    """Gradients that can be differentiated once more, by autograd through the definition."""
    spreads = torch.stack(_by_definition(SoftmaxResiduals(logits, targets), features, domains, bias, "mean"))
    wanted = [tensor for tensor in (features, logits) if tensor.requires_grad]
    found = iter(torch.autograd.grad(spreads, wanted, grad, create_graph=True))
    return [next(found) if tensor.requires_grad else None for tensor in (features, logits)]


def _less_mean(values: Tensor, P: Tensor) -> Tensor:
    """Values of the classes (n, C) less their mean under P, as means of differences."""
    differences = values[:, :, None] - values[:, None, :]
    return torch.bmm(differences, P[:, :, None])[:, :, 0]
