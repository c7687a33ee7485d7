r"""Spreads over domains of gradients and of Hessian-gradient products, as HGP needs them.

Legend: X (n, d) features, S = X Xᵀ, plus 1 with a bias; R (n, C) residuals, A the second residual of a sample; own,
share and the number of domains as in `_domains.py`; W (n, n) = share_i (own_ij − share_j), under which a Gram matrix of
samples sums to the spread of their domains' means.

A domain's gradient is :math:`g_e = \sum_i u_i R_i x_i^\top`. A sample meets its own in :math:`t = (S \circ own) R`, so
with :math:`V_i = A_i t_i` the product is :math:`v_e = H_e g_e = \sum_i u_i V_i x_i^\top`, and the spreads are
:math:`\sum R \circ (W \circ S) R` and :math:`\sum V \circ (W \circ S) V`: matrices n x n, none of size dC.

For the cross-entropy of few classes on a CUDA device three Triton kernels compute them (`_product_kernels.py`). There
V = P ∘ t̃, where a tilde subtracts from a row its mean under P, and the derivative of
:math:`\langle \delta, A t\rangle` with respect to P is :math:`\tilde t \circ \tilde\delta`, up to a constant that a
softmax does not see.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign import _triton
from momentalign.closed_form import _product_kernels as kernels
from momentalign.closed_form._domains import averages
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals

if _triton.AVAILABLE:
    import triton

_ROWS = 2048
"""Largest batch for the kernels: a program passes over all rows."""

_CLASSES = 16
"""Largest number of classes that a program can hold in registers with a tile of pairs."""

_BLOCK = 16
"""Rows and columns of a tile of pairs."""


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

    The center is the `"mean"` of the products, or the `"product"` :math:`\bar H \bar g`, detached.
    """
    if loss is SoftmaxResiduals and center == "mean" and _can_fuse(features, logits):
        inputs = features, logits, targets.contiguous(), domains.contiguous(), bias
        gradient, hessian, *_ = _FusedProductSpreads.apply(*inputs)  # type: ignore[no-untyped-call]
        return gradient, hessian
    return _plain_spreads(loss(logits, targets), features, domains, bias, center)


def _plain_spreads(residuals: Residuals, X: Tensor, domains: Tensor, bias: bool, center: str) -> tuple[Tensor, Tensor]:
    R = residuals.gradient
    own, _, _, share = averages(domains, X.dtype)
    S = X @ X.T + int(bias)
    inside = S * own
    between = S * (share[:, None] * (own - share))
    V = residuals.hessian_times(inside @ R)
    gradient = (R * (between @ R)).sum().relu()
    if center == "mean":
        return gradient, (V * (between @ V)).sum().relu()
    # Three sums of one form, so that they cancel exactly for a single domain.
    pooled = residuals.hessian_times((S * share) @ R).detach()
    squares = (share[:, None] * V * (inside @ V)).sum()
    with_center = (share[:, None] * V * (((X @ X.detach().T + int(bias)) * share) @ pooled)).sum()
    of_center = (share[:, None] * pooled * ((S.detach() * share) @ pooled)).sum()
    return gradient, (squares - 2 * with_center + of_center).relu()


def _can_fuse(features: Tensor, logits: Tensor) -> bool:
    """Whether the kernels can be used: a mini-batch of few classes in float32 on CUDA."""
    rows, classes = logits.shape
    return _triton.can_use_float32(features, logits) and rows <= _ROWS and classes <= _CLASSES


class _Intermediates(NamedTuple):
    """What the backward pass reads; the legend is that of `_product_kernels.py`."""

    S: Tensor
    R: Tensor
    G: Tensor
    mass: Tensor
    top: Tensor
    share: Tensor
    T: Tensor
    V: Tensor
    E: Tensor
    D: Tensor
    Q: Tensor


class _FusedProductSpreads(torch.autograd.Function):
    @staticmethod
    def forward(features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool) -> tuple[Tensor, ...]:
        n, C = logits.shape
        R, G, T, V, E, D, Q = torch.empty(7, n, C, device=logits.device)
        mass, share = torch.empty(2, n, device=logits.device)
        top = torch.empty(n, dtype=torch.int32, device=logits.device)
        tiles, sizes = triton.cdiv(n, _BLOCK), _block_sizes(C)
        values = torch.empty(2, tiles, device=logits.device)
        S = features @ features.T
        kernels.rows[(tiles,)](logits, targets, domains, R, G, mass, top, share, n, C, *logits.stride(), **sizes)
        common = S, R, G, mass, top, domains, share
        kernels.products[(tiles,)](*common, T, V, n, C, BIAS=int(bias), **sizes)
        kernels.spreads[(tiles,)](*common, V, E, D, Q, values, n, C, BIAS=int(bias), **sizes)
        gradient, hessian = values.sum(1).relu_().unbind()
        return gradient, hessian, *_Intermediates(S, R, G, mass, top, share, T, V, E, D, Q)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.bias = inputs
        _triton.save_outputs(ctx, tuple(tensors), output, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, hessian: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        features, logits, targets, domains, *rest = ctx.saved_tensors
        grads = _triton.zero_where_missing(logits, gradient, hessian)
        if torch.is_grad_enabled():
            spreads = _plain_spreads(SoftmaxResiduals(logits, targets), features, domains, ctx.bias, "mean")
            return *_triton.differentiable_gradients(spreads, (features, logits), grads), None, None, None
        saved = _Intermediates(*rest)
        n, C = logits.shape
        dS, dlogits = torch.empty_like(saved.S), torch.empty_like(saved.R)
        kernels.slopes[(triton.cdiv(n, _BLOCK),)](
            saved.S, saved.R, saved.G, saved.mass, saved.top, domains, saved.share,
            saved.T, saved.V, saved.E, saved.D, saved.Q, *grads, dS, dlogits, n, C,
            BIAS=int(ctx.bias), **_block_sizes(C),
        )  # fmt: skip
        return dS @ features if ctx.needs_input_grad[0] else None, dlogits, None, None, None


def _block_sizes(C: int) -> dict[str, int]:
    return {"BLOCK_I": _BLOCK, "BLOCK_J": _BLOCK, "BLOCK_C": max(16, triton.next_power_of_2(C))}
