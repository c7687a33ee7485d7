r"""Weighted spreads of gradients and Hessians of the cross-entropy, with their gradients by hand.

An eager call of plain operations is half as long as what autograd records for them. Second derivatives, and traced
calls, take the general path of `_gram.py`.

Legend (see `_softmax.py`, `_domains.py`): R = P − O (n, C), π (n, 1) the mass of the classes other than the likeliest
m_i, G = R + (O − Y), S = X Xᵀ, plus 1 with a bias, W the pair weights of a spread, B = W∘S∘S; A_ij = R_{i,m_j} + π_i.
With ρ = R Rᵀ, Z = 1 + 2 P Pᵀ and T = R (R²)ᵀ the inner products of second residuals are

.. math:: F = \rho\circ(Z-\rho) - T - T^\top + 2(A\circ A^\top - \pi\pi^\top)

and the value is :math:`\alpha \sum W\circ S\circ GG^\top + \beta\sum B\circ F`. Everything is as small as the result
where the model is sure: nothing cancels in float32.
"""

from typing import Any

import torch
from torch import Tensor

from momentalign import _triton
from momentalign.closed_form._cma_host import CLASSES, ROWS, FusedSpreads
from momentalign.closed_form._gram import gram_spreads
from momentalign.closed_form._softmax import SoftmaxResiduals

_Found = tuple[Tensor, Tensor, Tensor, Tensor]


def weighted_spreads(
    features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool, weights: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor]:
    """The weighted sum of the spreads of orders 1 and 2, and both without weights; one of weight 0 is left out as 0."""
    if all(weights) and can_fuse_spreads(features, logits):
        batch = features, logits, targets.contiguous(), domains.contiguous()
        first, second, *_ = FusedSpreads.apply(*batch, bias, _plain)  # type: ignore[no-untyped-call]
        return torch.add(weights[0] * first, second, alpha=weights[1]), first, second
    by_hand = torch.is_grad_enabled() and features.requires_grad and logits.requires_grad
    if by_hand and not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active():
        inputs = features, logits, targets, domains, bias, *weights
        result: tuple[Tensor, Tensor, Tensor] = _WeightedSpreads.apply(*inputs)  # type: ignore[no-untyped-call]
        return result
    return _by_autograd(features, logits, targets, domains, bias, weights)


def can_fuse_spreads(features: Tensor, logits: Tensor) -> bool:
    """Whether the kernels can be used: a mini-batch of few classes in float32 on CUDA."""
    small = len(logits) <= ROWS and logits.shape[1] <= CLASSES
    return features.is_cuda and small and _triton.can_use_float32(features, logits)


def _plain(features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool) -> tuple[Tensor, Tensor]:
    return _by_autograd(features, logits, targets, domains, bias, (1.0, 1.0))[1:]


def _by_autograd(
    features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool, weights: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor]:
    orders = [order for order, weight in enumerate(weights, 1) if weight]
    values, _ = gram_spreads(orders, SoftmaxResiduals(logits, targets), features, domains, bias)
    spreads = dict(zip(orders, values, strict=True))
    first, second = (spreads.get(order, features.new_zeros(())) for order in (1, 2))
    return weights[0] * first + weights[1] * second, first, second


class _WeightedSpreads(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, X: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, bias: bool, alpha: float, beta: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        find = _two_classes if logits.shape[1] == 2 else _many_classes
        S = torch.addmm(X.new_ones(()), X, X.T) if bias else X @ X.T
        first, second, inner, slopes = find(S, _pair_weights(domains, X.dtype), logits, targets, alpha, beta)
        ctx.save_for_backward(inner @ X, slopes, X, logits, targets, domains)
        ctx.options = bias, alpha, beta
        ctx.mark_non_differentiable(first, second)
        return torch.add(alpha * first, second, alpha=beta), first, second

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        dX, dlogits, X, logits, targets, domains = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return grad * dX, grad * dlogits, None, None, None, None, None
        bias, *weights = ctx.options
        total = _by_autograd(X, logits, targets, domains, bias, (weights[0], weights[1]))[0]
        return *torch.autograd.grad(total, (X, logits), grad, create_graph=True), None, None, None, None, None


def _pair_weights(domains: Tensor, dtype: torch.dtype) -> Tensor:
    """W, by which a sample Gram sums to the spread."""
    together = domains[:, None] == domains
    u = together.sum(1, dtype=dtype).reciprocal_()
    number = u.sum().round_().reciprocal_()
    return torch.outer(u * number, u).mul_(torch.sub(together.to(dtype), number))


def _two_classes(S: Tensor, W: Tensor, logits: Tensor, targets: Tensor, alpha: float, beta: float) -> _Found:
    r"""By v = p_0 p_1 and q = p_1 − y: values 2 qᵀ(W∘S)q and 4 vᵀBv."""
    P = logits.softmax(1)
    targets = targets.long()
    other = P.gather(1, (1 - targets)[:, None])[:, 0]  # an index error for what is neither 0 nor 1
    q = torch.where(targets == 1, -other, other)
    WS = W * S
    first, second = logits.new_zeros(()), logits.new_zeros(())
    inner, slope = None, None
    if alpha:
        a = WS @ q
        first = torch.dot(q, a).mul_(2)
        inner, slope = torch.outer(q * (4 * alpha), q).mul_(W), a.mul_(4 * alpha)
    if beta:
        p, r = P.unbind(1)
        v = p * r
        b = (WS * S) @ v
        second = torch.dot(v, b).mul_(4)
        outer = WS.mul_(torch.outer(v * (16 * beta), v))
        inner = outer if inner is None else inner.add_(outer)
        b.mul_(torch.sub(p, r).mul_(8 * beta))
        slope = b if slope is None else slope.add_(b)
    assert inner is not None
    assert slope is not None
    slope = slope * (P[:, 0] * P[:, 1])
    return first.relu_(), second.relu_(), inner, torch.stack([-slope, slope], 1)


def _many_classes(S: Tensor, W: Tensor, logits: Tensor, targets: Tensor, alpha: float, beta: float) -> _Found:
    top, P = logits.argmax(1, keepdim=True), logits.softmax(1)
    hot = torch.zeros_like(P).scatter_(1, top, 1.0)
    others = P.scatter(1, top, 0.0)
    mass = others.sum(1, keepdim=True)
    R = torch.addcmul(others, hot, mass, value=-1)
    WS = W * S
    first, second = logits.new_zeros(()), logits.new_zeros(())
    inner, dR, own = None, None, None
    if alpha:
        G = R + hot.scatter_add(1, targets.long()[:, None], torch.full_like(mass, -1.0))
        GG = G @ G.T
        first = torch.dot(GG.view(-1), WS.view(-1))
        inner, dR = GG.mul_(W).mul_(2 * alpha), WS @ G.mul_(2 * alpha)
    if beta:
        B, R2 = (WS * S).mul_(2 * beta), R.square()
        rho, Z = R @ R.T, torch.addmm(R.new_ones(()), P, P.T, alpha=2)
        T, g = R @ R2.T, R @ hot.T
        A = g + mass
        F = torch.sub(Z, rho).mul_(rho).sub_(T).sub_(T.T).addcmul_(A, A.T, value=2)
        F.addr_(mass[:, 0], mass[:, 0], alpha=-2)
        second = torch.dot(B.view(-1), F.view(-1)).mul_(0.5 / beta)
        F.mul_(WS).mul_(4 * beta)
        inner = F if inner is None else inner.add_(F)
        own = torch.linalg.vecdot(B, g.T)
        dR = Z.mul_(B) @ R if dR is None else dR.addmm_(Z.mul_(B), R)
        dR.addmm_(B, R2, alpha=-1).addmm_(rho.add_(A.T).mul_(B), hot, alpha=2)
        dR.addcmul_(R, B @ R, value=-2)
    assert inner is not None
    assert dR is not None
    shift = dR.gather(1, top)
    D = dR.sub_(shift if own is None else shift.sub_(own[:, None], alpha=2)).mul_(others)
    return first.relu_(), second.relu_(), inner, torch.addcmul(D, P, D.sum(1, keepdim=True), value=-1)
