r"""Spread over domains of the variances of the samples' gradients, with a decaying past.

Legend: X (n, d) features, one more column of ones where there is a bias; R (n, C) residuals; Γ (n, N) the samples'
gradients R ⊗ X, N = Cd; member (n, K) one where a sample is of a domain; E (n, K) weights that average each domain;
q (K,) weights that average the domains that have samples; s (K, N) the domains' variances plus the decayed past.

A mini-batch of few classes has room for Γ itself. Then forward and backward are written out by hand, with fewer and
larger operations, and variances are taken about the mean. Where Γ would be large it is not formed.
"""

from typing import Any

import torch
from torch import Tensor

from momentalign.closed_form._direct import with_constant

_ENTRIES = 2**22


def variance_spread(
    residuals: Tensor, features: Tensor, member: Tensor, past: Tensor | None, decay: float, bias: bool
) -> tuple[Tensor, Tensor]:
    r"""Mean over domains and coordinates of :math:`(s_e - \bar s)^2`, :math:`s_e = v_e + \gamma\,\mathrm{past}_e`.

    Args:
        residuals: First residuals, shape (n, C).
        features: Shape (n, d).
        member: 1 where a sample is of a domain, 0 elsewhere; shape (n, K). A domain may be without samples.
        past: Shape (K, N) with N the size of the head, bias last in each row; None where there is none.
        decay: What it is multiplied by, γ.
        bias: Whether the head has one.

    Returns:
        The spread over the domains that have samples, a scalar, and detached the sums s, shape (K, N).
    """
    if residuals.numel() * (features.shape[1] + bias) > _ENTRIES:
        sums = _variances(residuals, features, member, bias)
        sums = sums if past is None else torch.add(sums, past, alpha=decay)
        return _spread(sums, member), sums.detach()
    value, sums, *_ = _VarianceSpread.apply(residuals, features, member, past, decay, bias)  # type: ignore[no-untyped-call]
    return value, sums


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
        R: Tensor, features: Tensor, member: Tensor, past: Tensor | None, decay: float, bias: bool
    ) -> tuple[Tensor, ...]:
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
        R, features, member, _, _, ctx.bias = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(R, features, member, *output[1:])  # not the past, which is written over

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
        if grad is None:
            return None, None, None, None, None, None
        R, features, member, sums, E, centred, weighted = ctx.saved_tensors
        if torch.is_grad_enabled():
            now = _variances(R, features, member, ctx.bias)
            value = _spread(now + (sums - now).detach(), member)
            wanted = [tensor for tensor in (R, features) if tensor.requires_grad]
            found = iter(torch.autograd.grad(value, wanted, grad, create_graph=True))
            again = [next(found) if tensor.requires_grad else None for tensor in (R, features)]
            return *again, None, None, None, None
        # That the means move as well adds nothing: deviations from a mean sum to zero.
        dgradients = (centred * (E @ (weighted * grad))).unflatten(1, (R.shape[1], -1))
        dproducts, dbias = dgradients.split([features.shape[1], int(ctx.bias)], 2)
        dR = dfeatures = None
        if ctx.needs_input_grad[0]:
            X = features[:, :, None]
            dR = (torch.baddbmm(dbias, dproducts, X) if ctx.bias else torch.bmm(dproducts, X))[:, :, 0]
        if ctx.needs_input_grad[1]:
            dfeatures = torch.bmm(R[:, None, :], dproducts)[:, 0]
        return dR, dfeatures, None, None, None, None
