r"""Inner products of second residuals of the softmax, with a backward pass written out by hand.

Legend (see `_softmax.py`): R (n, C) shifted probabilities, a (n, 1) mass of the classes that are not the likeliest,
top (n,) the likeliest class; Q (m, C), b (m, 1), top' the same of the columns; e = [top_i = top'_j];
ρ = R·Q, τ = R·Q² + R²·Q, g = R_i[top'_j], h = Q_j[top_i]. Then

.. math:: F = \rho t - \tau + 2(ah + bg + gh), \qquad t = \rho + 1 + 2(e + g + h)

Autograd would pass over the n x m entries some forty times in backward; the derivatives below need fifteen, which is
most of what the penalty costs on an accelerator.
"""

from typing import Any

import torch
from torch import Tensor


def second_order_gram(R: Tensor, mass: Tensor, top: Tensor) -> Tensor:
    """F between all pairs of n samples, shape (n, n); R (n, C), mass (n, 1), top (n,)."""
    return _Symmetric.apply(R, mass, top)[0]  # type: ignore[no-untyped-call, no-any-return]


def second_order_cross_gram(
    R: Tensor, mass: Tensor, top: Tensor, Q: Tensor, other_mass: Tensor, other_top: Tensor
) -> Tensor:
    """F between n and m samples, shape (n, m)."""
    return _Crossed.apply(R, mass, top, Q, other_mass, other_top)[0]  # type: ignore[no-untyped-call, no-any-return]


def polynomial(
    rho: Tensor, tau: Tensor, g: Tensor, h: Tensor, a: Tensor, b: Tensor, same: Tensor
) -> tuple[Tensor, Tensor]:
    """F and t of the legend, entry by entry."""
    t = torch.add(rho, g + h + same, alpha=2) + 1
    mixed = torch.addcmul(g * (h + b), a, h)
    return torch.add(rho * t - tau, mixed, alpha=2), t


def _symmetric(R: Tensor, a: Tensor, top: Tensor) -> tuple[Tensor, ...]:
    """F, t, ρ, g of all pairs, and R and R² one above the other."""
    powers = torch.stack([R, R.square()])
    rho, half = (R @ powers.flatten(0, 1).T).chunk(2, dim=1)
    g = R.index_select(1, top)
    F, t = polynomial(rho, half + half.T, g, g.T, a, a.T, top[:, None] == top)
    return F, t, rho, g, powers


def _crossed(R: Tensor, a: Tensor, top: Tensor, Q: Tensor, b: Tensor, other_top: Tensor) -> tuple[Tensor, ...]:
    """F, t, ρ, g, h of n x m pairs."""
    rho = R @ Q.T
    tau = torch.cat([R, R.square()], 1) @ torch.cat([Q.square(), Q], 1).T
    g, h = R.index_select(1, other_top), Q.index_select(1, top).T
    F, t = polynomial(rho, tau, g, h, a, b.T, top[:, None] == other_top)
    return F, t, rho, g, h


class _Symmetric(torch.autograd.Function):
    @staticmethod
    def forward(R: Tensor, a: Tensor, top: Tensor) -> tuple[Tensor, ...]:
        return _symmetric(R, a, top)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None
        R, a, top, t, rho, g, powers = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_derive_again(_symmetric(R, a, top)[0], (R, a), grad), None
        # F is symmetric, so only the symmetric part B of its gradient counts, twice.
        B = grad + grad.T
        through_square, through_tau = (B @ powers).unbind()
        dR = through_tau.addmm_(B * (t + rho), R, beta=-1).addcmul_(R, through_square, value=-2)
        h = g.T
        dR.index_add_(1, top, B * (rho + (h + a.T)), alpha=2)
        return dR, 2 * (B * h).sum(1, keepdim=True), None


class _Crossed(torch.autograd.Function):
    @staticmethod
    def forward(R: Tensor, a: Tensor, top: Tensor, Q: Tensor, b: Tensor, other_top: Tensor) -> tuple[Tensor, ...]:
        return _crossed(R, a, top, Q, b, other_top)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None, None, None, None
        R, a, top, Q, b, other_top, t, rho, g, h = ctx.saved_tensors
        if torch.is_grad_enabled():
            dR, da, dQ, db = _derive_again(_crossed(R, a, top, Q, b, other_top)[0], (R, a, Q, b), grad)
            return dR, da, None, dQ, db, None
        through_rho = grad * (t + rho)
        dR = da = dQ = db = None
        if ctx.needs_input_grad[0]:
            dR = _one_side(through_rho, grad, R, Q)
            dR.index_add_(1, other_top, grad * (rho + (h + b.T)), alpha=2)
            da = 2 * (grad * h).sum(1, keepdim=True)
        if ctx.needs_input_grad[3]:
            dQ = _one_side(through_rho.T, grad.T, Q, R)
            dQ.index_add_(1, top, (grad * (rho + (g + a))).T, alpha=2)
            db = 2 * (grad * g).sum(0)[:, None]
        return dR, da, None, dQ, db, None


def _one_side(through_rho: Tensor, grad: Tensor, R: Tensor, Q: Tensor) -> Tensor:
    """Gradient of R through ρ and τ."""
    through_square, through_tau = (grad @ torch.stack([Q, Q.square()])).unbind()
    return through_tau.addmm_(through_rho, Q, beta=-1).addcmul_(R, through_square, value=-2)


def _derive_again(F: Tensor, inputs: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated once more, by autograd through the definition."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(torch.autograd.grad(F, wanted, grad, create_graph=True))
    return tuple(next(found) if tensor.requires_grad else None for tensor in inputs)
