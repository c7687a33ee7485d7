r"""Spread over domains of the variances of the samples' gradients, with a decaying past.

Legend: X (n, d) features, one more column of ones where there is a bias; R (n, C) residuals; Γ (n, N) the samples'
gradients R ⊗ X, N = Cd; member (n, K) one where a sample is of a domain; E (n, K) weights that average each domain;
q (K,) weights that average the domains that have samples; s (K, N) the domains' variances plus the decayed past.

A mini-batch of few classes has room for Γ itself. Then forward and backward are written out by hand, with fewer and
larger operations, and variances are taken about the mean; on a CUDA device with Triton they are three
(`_variance_kernels.py`). Where Γ would be large it is not formed.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from momentalign._triton import are_single, blocks, can_use, power
from momentalign.closed_form import _variance_kernels as kernels
from momentalign.closed_form._direct import with_constant
from momentalign.closed_form._domains import same

_ENTRIES = 2**16
"""Entries of Γ up to which it is formed."""

_ROWS, _CLASSES, _DOMAINS = 256, 16, 16
"""Sizes up to which the kernels hold in registers what they need at once."""

_FORWARD_COLUMNS = 16
"""Columns of the forward kernel's tile, which has all rows."""

_BACKWARD_ROWS, _BACKWARD_COLUMNS = 4, 128
"""Tile of the backward kernel."""

_SPAN = 1024
"""Columns that one program goes through backward; where there are more, the parts have to be summed."""


def variance_spread(
    residuals: Tensor,
    features: Tensor,
    domains: Tensor,
    labels: Tensor,
    past: Tensor | None,
    decay: float,
    bias: bool,
) -> tuple[Tensor, Tensor]:
    r"""Mean over domains and coordinates of :math:`(s_e - \bar s)^2`, :math:`s_e = v_e + \gamma\,\mathrm{past}_e`.

    Args:
        residuals: First residuals, shape (n, C).
        features: Shape (n, d).
        domains: Shape (n,).
        labels: The K domains, each once; some may be without samples.
        past: Shape (K, N) with N the size of the head, bias last in each row; None where there is none.
        decay: What it is multiplied by, γ.
        bias: Whether the head has one.

    Returns:
        The spread over the domains that have samples, a scalar, and detached the sums s, shape (K, N).
    """
    fuses = _can_fuse(residuals, features, labels, past)
    if not fuses and residuals.numel() * (features.shape[1] + bias) > _ENTRIES:
        member = same(domains, labels, residuals.dtype)
        sums = _variances(residuals, features, member, bias)
        sums = sums if past is None else torch.add(sums, past, alpha=decay)
        return _spread(sums, member), sums.detach()
    operation = _FusedVarianceSpread if fuses else _VarianceSpread
    value, sums, *_ = operation.apply(residuals, features, domains, labels, past, decay, bias)  # type: ignore[no-untyped-call]
    return value, sums


def _can_fuse(residuals: Tensor, features: Tensor, labels: Tensor, past: Tensor | None) -> bool:
    """Whether the kernels take it: float32 on CUDA, with Triton, a mini-batch, and not where a compiler does it."""
    n, C = residuals.shape
    single = are_single(residuals, features) and (past is None or are_single(past))
    small = 0 < n <= _ROWS and C <= _CLASSES and len(labels) <= _DOMAINS
    return can_use(features) and single and small


def _variances(R: Tensor, features: Tensor, member: Tensor, bias: bool) -> Tensor:
    """The domains' variances, shape (K, N), by products over the samples; Γ is not formed."""
    X = with_constant(features, bias)
    weighted = (member / member.sum(0).clamp(min=1))[:, :, None] * R[:, None, :]
    means = weighted.flatten(1).T @ X
    squares = (weighted * R[:, None, :]).flatten(1).T @ X.square()
    return torch.addcmul(squares, means, means, value=-1).reshape(member.shape[1], -1)


def _spread(sums: Tensor, member: Tensor) -> Tensor:
    """Mean over the domains that have samples, and over coordinates, of the squared distance from the mean."""
    present = member.sum(0).clamp(max=1)
    q = present / present.sum()
    return q @ (sums - q @ sums).square().mean(1)


class _VarianceSpread(torch.autograd.Function):
    @staticmethod
    def forward(
        R: Tensor, features: Tensor, domains: Tensor, labels: Tensor, past: Tensor | None, decay: float, bias: bool
    ) -> tuple[Tensor, ...]:
        member = same(domains, labels, R.dtype)
        counts, products = member.sum(0), R[:, :, None] * features[:, None, :]
        E, present = member / counts.clamp(min=1), counts.clamp(max=1)
        gradients = (torch.cat([products, R[:, :, None]], 2) if bias else products).flatten(1)
        size = gradients.shape[1]
        # Twice two from the derivatives of two squares, and the mean over coordinates: backward has no scale to apply.
        scale = 4 / size
        centred = torch.addmm(gradients, member, E.T @ gradients, beta=scale, alpha=-scale)
        before = centred[:1] if past is None else past  # multiplied by zero where there is no past
        beta = 0.0 if past is None else decay
        sums = torch.addmm(before, E.T, centred.square(), beta=beta, alpha=scale**-2)
        q = present / present.sum()
        distances = sums - torch.mv(sums.T, q)
        weighted = distances * q[:, None]
        value = torch.dot(weighted.flatten(), distances.flatten()) / size
        return value, sums, E, centred, weighted

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        return _derive(ctx, grad, _slopes)


class _FusedVarianceSpread(torch.autograd.Function):
    @staticmethod
    def forward(
        R: Tensor, features: Tensor, domains: Tensor, labels: Tensor, past: Tensor | None, decay: float, bias: bool
    ) -> tuple[Tensor, ...]:
        (n, C), d, K = R.shape, features.shape[1], len(labels)
        sums = R.new_empty(K, C * (d + bias))
        means, seeds = torch.empty_like(sums), torch.empty_like(sums)
        tiles = blocks(d + bias, _FORWARD_COLUMNS), C
        values = R.new_empty(tiles[0] * C)
        before = sums if past is None else past.contiguous()  # not read where there is no past
        inputs = (tensor.contiguous() for tensor in (R, features, domains, labels))
        kernels.spread[tiles](
            *inputs, before, sums, means, seeds, values, n, d, C, K, float(decay),
            BIAS=int(bias), PAST=past is not None,
            BLOCK_N=power(n, 2), BLOCK_D=_FORWARD_COLUMNS, BLOCK_K=power(K, 2),
        )  # fmt: skip
        return values.sum(), sums, means, seeds

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        return _derive(ctx, grad, _fused_slopes)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Behind the value a forward pass returns the sums and what its backward pass reads."""
    R, features, domains, labels, _, _, ctx.bias = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(R, features, domains, labels, *output[1:])  # not the past, which is written over


_Slopes = Callable[[Any, tuple[Tensor, ...], Tensor], tuple[Tensor | None, Tensor | None]]


def _derive(ctx: Any, grad: Tensor | None, slopes: _Slopes) -> tuple[Any, ...]:
    """Gradients of all arguments; `slopes` gives those of residuals and features."""
    if grad is None:
        return None, None, None, None, None, None, None
    tensors = ctx.saved_tensors
    found = _derive_again(ctx, tensors, grad) if torch.is_grad_enabled() else slopes(ctx, tensors, grad)
    return *found, None, None, None, None, None


def _slopes(ctx: Any, tensors: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    R, features, _, _, _, E, centred, weighted = tensors
    # That the means move as well adds nothing: deviations from a mean sum to zero.
    dgradients = (centred * (E @ (weighted * grad))).unflatten(1, (R.shape[1], -1))
    dproducts, dbias = dgradients.split([features.shape[1], int(ctx.bias)], 2)
    dR = dfeatures = None
    if ctx.needs_input_grad[0]:
        X = features[:, :, None]
        dR = (torch.baddbmm(dbias, dproducts, X) if ctx.bias else torch.bmm(dproducts, X))[:, :, 0]
    if ctx.needs_input_grad[1]:
        dfeatures = torch.bmm(R[:, None, :], dproducts)[:, 0]
    return dR, dfeatures


def _fused_slopes(ctx: Any, tensors: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    R, features, domains, labels, _, means, seeds = tensors
    (n, C), d, K = R.shape, features.shape[1], len(labels)
    spans = blocks(d + ctx.bias, _SPAN)
    dR, dfeatures = R.new_empty(spans, n, C), features.new_empty(n, d)
    inputs = (tensor.contiguous() for tensor in (R, features, domains, labels))
    kernels.slopes[(blocks(n, _BACKWARD_ROWS), spans)](
        *inputs, means, seeds, grad, dR, dfeatures, n, d, K,
        C=C, BIAS=int(ctx.bias), SPAN=_SPAN,
        BLOCK_I=_BACKWARD_ROWS, BLOCK_D=_BACKWARD_COLUMNS, BLOCK_K=power(K, 2), BLOCK_C=power(C, 2),
    )  # fmt: skip
    whole = dR.sum(0) if spans > 1 else dR[0]
    return whole if ctx.needs_input_grad[0] else None, dfeatures if ctx.needs_input_grad[1] else None


def _derive_again(ctx: Any, tensors: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Gradients that can be differentiated once more, by autograd through the definition."""
    R, features, domains, labels, sums, *_ = tensors
    member = same(domains, labels, R.dtype)
    now = _variances(R, features, member, ctx.bias)
    value = _spread(now + (sums - now).detach(), member)
    wanted = [tensor for tensor in (R, features) if tensor.requires_grad]
    found = iter(torch.autograd.grad(value, wanted, grad, create_graph=True))
    dR, dfeatures = (next(found) if tensor.requires_grad else None for tensor in (R, features))
    return dR, dfeatures
