r"""Spreads over domains of derivatives with a decaying past, built explicitly, as momentum needs them.

Legend: v_e the derivative of domain e's mean loss by the numbers that determine it (see `domain_blocks`),
:math:`s_e = v_e + \gamma\,\mathrm{past}_e` its decayed sum, q (K,) weights that average the domains that have samples.
A spread is :math:`\sum_e q_e \|s_e - \bar s\|^2` with :math:`\bar s = \sum_e q_e s_e`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign.closed_form._cma_host import FusedDecayedSpreads, can_fuse_decayed
from momentalign.closed_form._direct import can_read_values, domain_blocks, with_constant
from momentalign.closed_form._domains import domain_weights
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals, incidence


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
    weights: Sequence[float] | None = None,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Weighted sum of the spreads of decayed sums over the domains that have samples, the spreads, and the sums.

    `labels` are the K domains, some may be without samples; `past` has sums (K, q, d, …, d) for each order, or None;
    `overwrite`: the sums may be written to its memory, which saves a copy. The sums are detached; with `weights` the
    spreads may be.
    """
    fused = loss is SoftmaxResiduals and list(orders) == [1, 2]
    if fused and can_fuse_decayed(features, logits, labels, bias):
        C, K, D = logits.shape[1], len(labels), features.shape[1] + bias
        sums = [logits.new_empty(K, C, D), logits.new_empty(K, C * (C - 1) // 2, D, D)]
        kept = [torch.zeros_like(s) if p is None else p.contiguous() for s, p in zip(sums, past, strict=True)]
        sums = kept if overwrite else sums
        inputs = features, logits, targets.contiguous(), domains.contiguous(), labels, kept, sums, decay, bias, _plain
        first, second, *_ = FusedDecayedSpreads.apply(*inputs)  # type: ignore[no-untyped-call]
        spreads = [first, second]
    elif weights is not None and _by_hand_applies(orders, loss, features, logits):
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        given = orders, past, decay, bias, overwrite, weights, found
        total: Tensor = _ByHand.apply(features, logits, targets, domains, labels, *given)  # type: ignore[no-untyped-call]
        return total, [spread for spread, *_ in found], [sums for _, sums, _ in found]
    else:
        E, residuals = domain_weights(domains, labels, features.dtype), loss(logits, targets)
        vectors = []
        for order, before in zip(orders, past, strict=True):
            now = domain_blocks(order, residuals, features, E, bias)
            vectors.append(now if before is None else torch.add(now, before, alpha=decay))
        spreads, sums = _spreads(orders, residuals, vectors, E), [vector.detach() for vector in vectors]
    terms = (weight * spread for weight, spread in zip(weights or [1.0] * len(orders), spreads, strict=True))
    return sum(terms, start=features.new_zeros(())), spreads, sums


def _by_hand_applies(orders: Sequence[int], loss: type[Residuals], features: Tensor, logits: Tensor) -> bool:
    trained = torch.is_grad_enabled() and features.requires_grad and logits.requires_grad
    return trained and features.is_cpu and loss is SoftmaxResiduals and max(orders) < 3 and can_read_values(features)


class _ByHand(torch.autograd.Function):
    r"""The spreads of orders 1 and 2 of the cross-entropy with their gradient, for eager calls on a CPU.

    Rows are sorted by domain, so that each is multiplied with its own domain alone. With coefficients c_i (q,) of an
    order, :math:`s_e = \gamma\,\mathrm{past}_e + \frac1{n_e} \sum_i c_i \otimes x_i^{\otimes r}` and the spread has the
    gradient :math:`\frac{2}{K} M\delta_e` by s_e, with M the metric of `Residuals.inner` and δ_e the deviation.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        logits: Tensor,
        targets: Tensor,
        domains: Tensor,
        labels: Tensor,
        orders: Sequence[int],
        past: Sequence[Tensor | None],
        decay: float,
        bias: bool,
        overwrite: bool,
        weights: Sequence[float],
        found: list[tuple[Tensor, Tensor, Tensor]],
    ) -> Tensor:
        """The weighted sum; `found` gets spread, sums and deviations of each order."""
        member = labels[:, None] == domains
        rows, sizes = member.nonzero()[:, 1], member.sum(1).tolist()
        own, z, y = (each.index_select(0, rows) for each in (features, logits, targets.long()))
        batch = _Sorted(with_constant(own, bias), z.softmax(1), y[:, None], sizes)
        dX, dP = torch.zeros_like(batch.X), torch.zeros_like(batch.P)
        total = features.new_zeros(())
        for order, before, weight in zip(orders, past, weights, strict=True):
            kept = before if overwrite or before is None else before.clone()
            found.append((_first if order == 1 else _second)(batch, kept, decay, weight, dX, dP))
            total = torch.add(total, found[-1][0], alpha=weight)
        P = batch.P
        dP = dP.sub_(dP.gather(1, P.argmax(1, keepdim=True))).mul_(P)  # nothing cancels close to one-hot
        dP.addcmul_(P, dP.sum(1, keepdim=True), value=-1)
        slopes = (
            (torch.empty_like if len(rows) == len(each) else torch.zeros_like)(each).index_copy_(0, rows, slope)
            for each, slope in ((features, dX[:, : features.shape[1]]), (logits, dP))
        )
        ctx.save_for_backward(features, logits, targets, domains, labels, *slopes, *(each[2] for each in found))
        ctx.options = orders, bias, weights
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, logits, targets, domains, labels, dX, dz, *deviations = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return grad * dX, grad * dz, *[None] * 10
        orders, bias, weights = ctx.options
        E = domain_weights(domains, labels, features.dtype)
        spreads = _around(orders, SoftmaxResiduals(logits, targets), features, E, deviations, bias)
        total = sum(weight * spread for weight, spread in zip(weights, spreads, strict=True))
        return *torch.autograd.grad(total, (features, logits), grad, create_graph=True), *[None] * 10


class _Sorted(NamedTuple):
    """Rows sorted by domain: features with the constant (n, D), P (n, C), targets (n, 1), rows of each domain."""

    X: Tensor
    P: Tensor
    y: Tensor
    sizes: list[int]

    def by_domain(self, values: Tensor) -> tuple[Tensor, ...]:
        return torch.split_with_sizes(values, self.sizes)

    def sums(self, past: Tensor | None, decay: float, left: Tensor) -> tuple[Tensor, Tensor]:
        """Means of left ⊗ x over each domain added to its decayed past, which is written to, and their deviations."""
        s = self.X.new_zeros(len(self.sizes), *left.shape[1:], self.X.shape[1]) if past is None else past
        factors = map(self.by_domain, (left.flatten(1), self.X))
        for block, k, x, n in zip(s.flatten(1, -2).unbind(), *factors, self.sizes, strict=True):
            block.addmm_(k.T, x, beta=decay, alpha=1 / max(n, 1))
        absent = [e for e, n in enumerate(self.sizes) if not n]
        if not absent:
            return s, s - s.mean(0)
        delta = s - s[[e for e, n in enumerate(self.sizes) if n]].mean(0)
        delta[absent] = 0.0
        return s, delta

    @property
    def number(self) -> int:
        """Domains that have rows."""
        return sum(n > 0 for n in self.sizes)

    def scales(self, weight: float) -> list[float]:
        """What a deviation is multiplied with in the slope of a row, for each domain."""
        return [2 * weight / (self.number * n or 1) for n in self.sizes]

    def times(self, blocks: Tensor, weight: float, out: Tensor) -> None:
        """Blocks (K, r, D) times the rows of their domain and its scale, written to `out` (n, r)."""
        parts = zip(blocks.unbind(), *map(self.by_domain, (self.X, out)), self.scales(weight), strict=True)
        for block, x, target, scale in parts:
            target.addmm_(x, block.T, beta=0.0, alpha=scale)


def _first(
    batch: _Sorted, past: Tensor | None, decay: float, weight: float, dX: Tensor, dP: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Spread of the gradients, sums and deviations; the slopes are added to `dX` and `dP`."""
    c = batch.P.scatter(1, batch.y, 0.0)  # P − Y, without a difference of numbers close to one
    c.scatter_(1, batch.y, -c.sum(1, keepdim=True))
    s, delta = batch.sums(past, decay, c)
    parts = zip(delta.unbind(), *map(batch.by_domain, (batch.X, c, dX, dP)), batch.scales(weight), strict=True)
    for t, x, k, dx, dk, scale in parts:
        dx.addmm_(k, t, alpha=scale)
        dk.addmm_(x, t.T, alpha=scale)
    return _square(delta) / batch.number, s, delta


def _second(
    batch: _Sorted, past: Tensor | None, decay: float, weight: float, dX: Tensor, dP: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for Hessians, by the blocks of the pairs of classes a < b; the diagonal blocks are sums of them."""
    X, P, C = batch.X, batch.P, batch.P.shape[1]
    if C > 2:
        a, b = torch.triu_indices(C, C, 1)
        c = P[:, a] * P[:, b]
    else:
        c = P[:, :1] * P[:, 1:]
    along = c[:, :, None] * X[:, None]
    s, delta = batch.sums(past, decay, along)
    factor = 2 if C > 2 else 4
    value = _square(delta) * (factor / batch.number)
    batch.times(delta.flatten(1, 2), factor * weight, along.flatten(1))  # along becomes Mδ x
    if C > 2:
        incident = incidence(C, X)
        diagonal, through = incident @ delta.flatten(2), X.new_empty(len(X), C, X.shape[1])
        value += _square(diagonal) / batch.number
        batch.times(diagonal.view(len(s), -1, X.shape[1]), weight, through.flatten(1))
        along.baddbmm_(incident.T.expand(len(X), -1, -1), through)
        dX[:, None].baddbmm_(c[:, None], along, alpha=2)
        dc = torch.linalg.vecdot(along, X[:, None])
        dP.index_add_(1, a, dc * P[:, b]).index_add_(1, b, dc * P[:, a])
    else:
        dX.addcmul_(along[:, 0], c, value=2)
        dP.addcmul_(torch.linalg.vecdot(along, X[:, None]), P.flip(1))
    return value, s, delta


def _square(values: Tensor) -> Tensor:
    return torch.dot(values.view(-1), values.view(-1))


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
