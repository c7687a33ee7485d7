r"""Spreads over domains of derivatives with a decaying past, built explicitly, as momentum needs them.

Legend: v_e the derivative of domain e's mean loss by the numbers that determine it (see `domain_blocks`),
:math:`s_e = v_e + \gamma\,\mathrm{past}_e` its decayed sum, q (K,) weights that average the domains that have samples.
A spread is :math:`\sum_e q_e \|s_e - \bar s\|^2` with :math:`\bar s = \sum_e q_e s_e`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from momentalign.closed_form._cma_host import FusedDecayedSpreads, can_fuse_decayed
from momentalign.closed_form._direct import can_read_values, domain_blocks, with_constant
from momentalign.closed_form._domains import domain_weights
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals, diagonal_blocks, incidence


def decayed_spreads(
    orders: Sequence[int],
    loss: type[Residuals],
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    labels: Tensor,
    past: Sequence[Tensor | None],
    decay: float,
    *,
    bias: bool,
    overwrite: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """Spread of the decayed sums over the domains that have samples, for each order, and the sums, detached.

    `labels` are the K domains, some may be without samples; `past` has sums (K, q, d, …, d) for each order, or None;
    `overwrite`: the sums may be written to its memory, which saves a copy.
    """
    fused = loss is SoftmaxResiduals and list(orders) == [1, 2]
    if fused and can_fuse_decayed(features, logits, labels, bias):
        C, K, D = logits.shape[1], len(labels), features.shape[1] + bias
        sums = [logits.new_empty(K, C, D), logits.new_empty(K, C * (C - 1) // 2, D, D)]
        kept = [torch.zeros_like(s) if p is None else p.contiguous() for s, p in zip(sums, past, strict=True)]
        sums = kept if overwrite else sums
        inputs = features, logits, targets.contiguous(), domains.contiguous(), labels, kept, sums, decay, bias, _plain
        first, second, *_ = FusedDecayedSpreads.apply(*inputs)  # type: ignore[no-untyped-call]
        return [first, second], sums
    E, residuals = domain_weights(domains, labels, features.dtype), loss(logits, targets)
    by_hand = torch.is_grad_enabled() and features.requires_grad and logits.requires_grad and features.is_cpu
    if loss is SoftmaxResiduals and max(orders) < 3 and by_hand and can_read_values(features):
        outputs = _ByHand.apply(features, logits, targets, E, list(orders), list(past), decay, bias, overwrite)  # type: ignore[no-untyped-call]
        return list(outputs[: len(orders)]), list(outputs[len(orders) :])
    vectors = []
    for order, before in zip(orders, past, strict=True):
        now = domain_blocks(order, residuals, features, E, bias)
        vectors.append(now if before is None else torch.add(now, before, alpha=decay))
    return _spreads(orders, residuals, vectors, E), [vector.detach() for vector in vectors]


class _ByHand(torch.autograd.Function):
    """The spreads of orders 1 and 2 of the cross-entropy with their gradients, on the rows of one domain after another.

    An order's derivative v_e is a sum of w_i c_i ⊗ x_i^{⊗r} over the domain's rows, and its spread has the gradient
    2 q_e M δ_e by v_e, with M the metric of `Residuals.inner` and δ_e the deviation from the mean.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        logits: Tensor,
        targets: Tensor,
        E: Tensor,
        orders: list[int],
        past: list[Tensor | None],
        decay: float,
        bias: bool,
        overwrite: bool,
    ) -> tuple[Tensor, ...]:
        C, present = logits.shape[1], E > 0
        sizes, order_of_rows = present.sum(0).tolist(), (present * torch.arange(1, 1 + E.shape[1])).sum(1).argsort()
        order_of_rows = order_of_rows[len(E) - sum(sizes) :]  # rows of no known domain come first
        X, z, y = with_constant(features, bias)[order_of_rows], logits[order_of_rows], targets[order_of_rows]
        w, q = E[order_of_rows].sum(1), (torch.tensor(sizes) > 0).to(E.dtype)
        q /= q.sum()
        residuals = SoftmaxResiduals(z, y)
        top, P = residuals.likeliest[:, None], residuals.probabilities
        values, sums, slopes, deviations = [], [], [], []
        for order, before in zip(orders, past, strict=True):
            c = residuals.coefficients(order)
            wc = c * w[:, None]
            shape = (E.shape[1], c.shape[1], *[X.shape[1]] * order)
            s = before if before is not None and overwrite else X.new_empty(shape)
            flat = (-1, X.shape[1])
            for e, (x, k) in enumerate(zip(X.split(sizes), wc.split(sizes), strict=True)):
                left = k.T if order == 1 else (k.T[:, None] * x.T).flatten(0, 1)
                if before is None:
                    torch.mm(left, x, out=s[e].view(flat))
                else:
                    torch.addmm(before[e].view(flat), left, x, beta=decay, out=s[e].view(flat))
            delta = s - torch.mv(s.view(len(s), -1).T, q).view(shape[1:])
            towards = delta if order == 1 else _metric(delta, C)
            lengths = [torch.dot(a.view(-1), b.view(-1)) for a, b in zip(delta, towards, strict=True)]
            values.append(torch.dot(torch.stack(lengths), q))
            dX, dc = torch.empty_like(X), torch.empty_like(c)
            parts = zip(towards, X.split(sizes), wc.split(sizes), dX.split(sizes), dc.split(sizes), strict=True)
            for t, x, k, dx, dk in parts:
                if order == 1:
                    torch.mm(x, t.T, out=dk)
                    torch.mm(k, t, out=dx)
                else:
                    y_t = (t.view(-1, X.shape[1]) @ x.T).view(*t.shape[:2], -1)
                    dk.copy_((y_t * x.T).sum(1).T)
                    dx.copy_((y_t * k.T[:, None]).sum(0).T)
            scale = torch.repeat_interleave(2 * q, torch.tensor(sizes))[:, None]
            dX.mul_(order * scale)
            dP = dc.mul_(scale * w[:, None])
            if order == 2:
                a, b = torch.triu_indices(C, C, 1)
                dP = torch.zeros_like(P).index_add_(1, a, dc * P[:, b]).index_add_(1, b, dc * P[:, a])
            dP = (dP - dP.gather(1, top)).mul_(P)  # nothing cancels close to one-hot
            dz = torch.addcmul(dP, P, dP.sum(1, keepdim=True), value=-1)
            slopes += [
                torch.zeros_like(each).index_copy_(0, order_of_rows, slope)
                for each, slope in ((features, dX[:, : features.shape[1]]), (logits, dz))
            ]
            sums.append(s)
            deviations.append(delta)
        ctx.save_for_backward(features, logits, targets, E, *deviations, *slopes)
        ctx.orders, ctx.bias = orders, bias
        ctx.mark_non_differentiable(*sums)
        return *values, *sums

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        features, logits, targets, E, *rest = ctx.saved_tensors
        count = len(ctx.orders)
        grads = grads[:count]
        if torch.is_grad_enabled():
            spreads = _around(ctx.orders, SoftmaxResiduals(logits, targets), features, E, rest[:count], ctx.bias)
            return *torch.autograd.grad(spreads, (features, logits), grads, create_graph=True), *[None] * 7
        pairs = list(zip(grads, rest[count::2], rest[count + 1 :: 2], strict=True))
        dX, dz = (sum(grad * pair[k] for grad, *pair in pairs) for k in (0, 1))
        return dX, dz, *[None] * 7


def _metric(blocks: Tensor, classes: int) -> Tensor:
    """Blocks (K, q, D, D) of pairs of classes by the metric of their inner products."""
    if classes == 2:
        return 4 * blocks
    flat = blocks.flatten(2)
    through = incidence(classes, blocks).T.expand(len(flat), -1, -1)
    return torch.baddbmm(flat, through, diagonal_blocks(blocks, classes), beta=2).view_as(blocks)


def _spreads(orders: Sequence[int], residuals: Residuals, vectors: list[Tensor], E: Tensor) -> list[Tensor]:
    present = E.sum(0).clamp(max=1)
    q = present / present.sum()
    centred = [vector - torch.tensordot(q, vector, 1) for vector in vectors]
    return [q @ residuals.inner(order, each).diagonal() for order, each in zip(orders, centred, strict=True)]


def _around(
    orders: Sequence[int], residuals: Residuals, features: Tensor, E: Tensor, centred: Sequence[Tensor], bias: bool
) -> list[Tensor]:
    """The spreads in plain operations; known values of the sums less their mean stand for the sums."""
    now = [domain_blocks(order, residuals, features, E, bias) for order in orders]
    vectors = [vector + (value - vector).detach() for vector, value in zip(now, centred, strict=True)]
    return _spreads(orders, residuals, vectors, E)


def _plain(
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    labels: Tensor,
    centred: list[Tensor],
    bias: bool,
) -> tuple[Tensor, Tensor]:
    E = domain_weights(domains, labels, features.dtype)
    first, second = _around((1, 2), SoftmaxResiduals(logits, targets), features, E, centred, bias)
    return first, second
