r"""Spreads over domains of derivatives with a decaying past, built explicitly, as momentum needs them.

Legend: v_e the derivative of domain e's mean loss by the numbers that determine it (see `domain_blocks`),
:math:`s_e = v_e + \gamma\,\mathrm{past}_e` its decayed sum, q (K,) weights that average the domains that have samples.
A spread is :math:`\sum_e q_e \|s_e - \bar s\|^2` with :math:`\bar s = \sum_e q_e s_e`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from momentalign.closed_form._cma_host import FusedDecayedSpreads, can_fuse_decayed
from momentalign.closed_form._direct import domain_blocks
from momentalign.closed_form._domains import domain_weights
from momentalign.closed_form._heads import Residuals
from momentalign.closed_form._softmax import SoftmaxResiduals


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
    vectors = []
    for order, before in zip(orders, past, strict=True):
        now = domain_blocks(order, residuals, features, E, bias)
        vectors.append(now if before is None else torch.add(now, before, alpha=decay))
    return _spreads(orders, residuals, vectors, E), [vector.detach() for vector in vectors]


def _spreads(orders: Sequence[int], residuals: Residuals, vectors: list[Tensor], E: Tensor) -> list[Tensor]:
    present = E.sum(0).clamp(max=1)
    q = present / present.sum()
    centred = [vector - torch.tensordot(q, vector, 1) for vector in vectors]
    return [q @ residuals.inner(order, each).diagonal() for order, each in zip(orders, centred, strict=True)]


def _plain(
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    labels: Tensor,
    centred: list[Tensor],
    bias: bool,
) -> tuple[Tensor, Tensor]:
    """The spreads in plain operations; known values of the sums less their mean stand for the sums."""
    E, residuals = domain_weights(domains, labels, features.dtype), SoftmaxResiduals(logits, targets)
    now = [domain_blocks(order, residuals, features, E, bias) for order in (1, 2)]
    vectors = [vector + (value - vector).detach() for vector, value in zip(now, centred, strict=True)]
    first, second = _spreads((1, 2), residuals, vectors, E)
    return first, second
