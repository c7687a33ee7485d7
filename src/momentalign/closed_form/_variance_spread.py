r"""Spread over domains of the variances of the samples' gradients, with a decaying past, as Fishr needs it.

Legend: X (n, d) features, one more column of ones with a bias; R (n, C) residuals; Γ (n, N) the samples' gradients
R ⊗ X, N = Cd; member (n, K) one where a sample belongs to a domain; E (n, K) weights that average each domain; q (K,)
weights that average the domains that have samples; s (K, N) the domains' variances plus the decayed past.

Variances are taken about the mean where Γ is small enough to be formed, or where thousands of domains would take more
memory; from first and second moments otherwise.
For a mini-batch of few classes on a CUDA device two Triton kernels compute the spread and its gradient without Γ
(`_variance_kernels.py`).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign import _triton
from momentalign.closed_form import _variance_kernels as kernels
from momentalign.closed_form._direct import with_constant
from momentalign.closed_form._domains import same

if _triton.AVAILABLE:
    import triton

_ENTRIES = 2**16
"""Entries of Γ up to which it is formed."""

_PRODUCTS = 2**24
"""Products of a row's residuals with the domains' weights, of all rows, up to which they are formed rather than Γ."""

_ROWS, _CLASSES, _DOMAINS = 256, 16, 16
"""Largest batch for the kernels, which hold it in registers."""

_FORWARD_COLUMNS = 16
"""Columns of the forward kernel's tile, which has all rows."""

_BACKWARD_ROWS, _BACKWARD_COLUMNS = 4, 128
"""Tile of the backward kernel."""

_SPAN = 1024
"""Columns that one backward program passes through; the parts of several are summed."""


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
        past: Shape (K, N) with N the size of the head, bias last in each row; None for no past.
        decay: Factor of the past, γ.
        bias: Whether the head has a bias.

    Returns:
        The spread over the domains that have samples, a scalar, and detached the sums s, shape (K, N).
    """
    if _can_fuse(residuals, features, labels, past):
        inputs = residuals, features, domains, labels, past, decay, bias
        value, sums, *_ = _FusedVarianceSpread.apply(*inputs)  # type: ignore[no-untyped-call]
        return value, sums
    member = same(domains, labels, residuals.dtype)
    sums = _variances(residuals, features, member, bias)
    sums = sums if past is None else torch.add(sums, past, alpha=decay)
    return _spread(sums, member), sums.detach()


def _can_fuse(residuals: Tensor, features: Tensor, labels: Tensor, past: Tensor | None) -> bool:
    """Whether the kernels can be used: a mini-batch of few classes and domains in float32 on CUDA."""
    n, C = residuals.shape
    small = 0 < n <= _ROWS and C <= _CLASSES and len(labels) <= _DOMAINS
    return small and _triton.can_use_float32(residuals, features, *(() if past is None else (past,)))


def _variances(R: Tensor, features: Tensor, member: Tensor, bias: bool) -> Tensor:
    """The domains' variances, shape (K, N)."""
    X, E = with_constant(features, bias), member / member.sum(0).clamp(min=1)
    if R.numel() * X.shape[1] <= _ENTRIES:
        gradients = (R[:, :, None] * X[:, None, :]).flatten(1)
        return E.T @ (gradients - member @ (E.T @ gradients)).square()
    if E.numel() * R.shape[1] > max(_PRODUCTS, R.numel() * X.shape[1]):  # Γ is smaller
        return _grouped_variances((R[:, :, None] * X[:, None, :]).flatten(1), E)
    weighted = E[:, :, None] * R[:, None, :]
    means = weighted.flatten(1).T @ X
    squares = (weighted * R[:, None, :]).flatten(1).T @ X.square()
    return torch.addcmul(squares, means, means, value=-1).reshape(member.shape[1], -1)


def _grouped_variances(gradients: Tensor, E: Tensor) -> Tensor:
    """The domains' variances by sums over each one's own rows."""
    rows, domain = E.sum(1, keepdim=True), E.argmax(1)
    zeros = gradients.new_zeros(E.shape[1], gradients.shape[1])
    means = zeros.index_add(0, domain, rows * gradients)
    return zeros.index_add(0, domain, rows * (gradients - means[domain]).square())


def _spread(sums: Tensor, member: Tensor) -> Tensor:
    """Mean over the domains that have samples, and over coordinates, of the squared distance from the mean."""
    present = member.sum(0).clamp(max=1)
    q = present / present.sum()
    return q @ (sums - q @ sums).square().mean(1)


class _Intermediates(NamedTuple):
    """What the backward pass reads: sums s, mean gradients, and the value's derivatives by squared deviations."""

    sums: Tensor
    means: Tensor
    seeds: Tensor


class _FusedVarianceSpread(torch.autograd.Function):
    @staticmethod
    def forward(
        R: Tensor, features: Tensor, domains: Tensor, labels: Tensor, past: Tensor | None, decay: float, bias: bool
    ) -> tuple[Tensor, ...]:
        (n, C), d, K = R.shape, features.shape[1], len(labels)
        sums = R.new_empty(K, C * (d + bias))
        means, seeds = torch.empty_like(sums), torch.empty_like(sums)
        tiles = triton.cdiv(d + bias, _FORWARD_COLUMNS), C
        values = R.new_empty(tiles[0] * C)
        before = sums if past is None else past.contiguous()  # not read without a past
        inputs = (tensor.contiguous() for tensor in (R, features, domains, labels))
        kernels.spread[tiles](
            *inputs, before, sums, means, seeds, values, n, d, C, K, float(decay),
            BIAS=int(bias), PAST=past is not None, BLOCK_N=max(2, triton.next_power_of_2(n)),
            BLOCK_D=_FORWARD_COLUMNS, BLOCK_K=max(2, triton.next_power_of_2(K)),
        )  # fmt: skip
        return values.sum(), *_Intermediates(sums, means, seeds)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, _, _, ctx.bias = inputs
        _triton.save_outputs(ctx, tuple(tensors), output, 1)  # not the past, which is overwritten before backward

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        if grad is None:
            return (None,) * 7
        R, features, domains, labels, *rest = ctx.saved_tensors
        saved = _Intermediates(*rest)
        if torch.is_grad_enabled():
            member = same(domains, labels, R.dtype)
            now = _variances(R, features, member, ctx.bias)
            value = _spread(now + (saved.sums - now).detach(), member)
            return *_triton.differentiable_gradients(value, (R, features), grad), None, None, None, None, None
        (n, C), d, K = R.shape, features.shape[1], len(labels)
        spans = triton.cdiv(d + ctx.bias, _SPAN)
        dR, dfeatures = R.new_empty(spans, n, C), features.new_empty(n, d)
        inputs = (tensor.contiguous() for tensor in (R, features, domains, labels))
        kernels.slopes[(triton.cdiv(n, _BACKWARD_ROWS), spans)](
            *inputs, saved.means, saved.seeds, grad, dR, dfeatures, n, d, K,
            C=C, BIAS=int(ctx.bias), SPAN=_SPAN, BLOCK_I=_BACKWARD_ROWS, BLOCK_D=_BACKWARD_COLUMNS,
            BLOCK_K=max(2, triton.next_power_of_2(K)), BLOCK_C=max(2, triton.next_power_of_2(C)),
        )  # fmt: skip
        whole = dR.sum(0) if spans > 1 else dR[0]
        needs = ctx.needs_input_grad
        return whole if needs[0] else None, dfeatures if needs[1] else None, None, None, None, None, None
