r"""A bank of past batches: domain Grams of decaying sums of derivatives without tensors of size (Cd)^r.

Legend: E (n, K) averages the current batch's domains, B (N, K) the weights γ^k/n_e of the bank's rows, k batches
old. With D(t) = v(t) + γ D(t−1) the domain Gram is

.. math:: M(t) = E^\top G E + \gamma E^\top G' B + (\gamma E^\top G' B)^\top + \gamma^2 M(t-1)

where G is the current batch's sample Gram, G' the one between the batch and the bank, and the last block is a
K x K buffer. Batches older than the m with γ^m < 1e-3 leave the bank.
"""

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from momentalign._batch import HeadBatch
from momentalign.closed_form import Residuals, cross_grams, domain_grams, domain_weights, present_spread
from momentalign.penalties._memory import DomainMemory

_NEGLIGIBLE = 1e-3
"""Weight below which a batch leaves the bank."""

_ENTRIES = 2**22
"""Entries of a block between batch and bank."""

_COLUMNS = ("features", "logits", "weights", "targets", "domains")


class BankedMemory(DomainMemory):
    """Sums, or a bank of batches where it is smaller; which of them is for the first batch to say."""

    energies: Tensor
    grams: Tensor
    features: Tensor
    oldest: Tensor
    weights: Tensor

    def __init__(self, names: list[str], num_domains: int | None, decay: float) -> None:
        super().__init__([*names, "energies", "grams", *_COLUMNS], num_domains, decay)
        self.batches = math.ceil(math.log(_NEGLIGIBLE) / math.log(decay))
        self.register_buffer("oldest", torch.zeros(1, dtype=torch.long))

    def spreads(
        self, orders: list[int], loss: type[Residuals], batch: HeadBatch, labels: Tensor, bias: bool, *, update: bool
    ) -> list[Tensor]:
        """Spread of each order with the past in it; `labels` are those of :meth:`index`."""
        E = domain_weights(batch.domains, labels, batch.features.dtype)
        residuals = loss(batch.logits, batch.targets)
        grams = torch.stack(domain_grams(orders, residuals, batch.features, E, bias))
        if self.has("grams"):
            for column in ("features", "logits"):
                self.check_widths(self.get_buffer(column).shape[2:], getattr(batch, column).shape[1:])
            past = self.expanded(self.grams, labels, axes=(1, 2)).to(E.dtype)
            crossed = self.decay * self._crossed(orders, loss, batch, residuals, labels, E, bias)
            grams = grams + crossed + crossed.mT + self.decay**2 * past
        if update:
            with torch.no_grad():
                self.store("grams", grams)
                self._deposit({**batch._asdict(), "domains": batch.domains.long(), "weights": E.sum(1)})
        return [present_spread(gram, E.sum(0) > 0) for gram in grams]

    def _crossed(
        self,
        orders: list[int],
        loss: type[Residuals],
        batch: HeadBatch,
        residuals: Residuals,
        labels: Tensor,
        E: Tensor,
        bias: bool,
    ) -> Tensor:
        """Blocks Eᵀ G' B, recomputed in backward if the bank is larger than a tile."""
        # Copies, because this batch overwrites the bank before backward; cast, because the module may have been.
        columns = [self.get_buffer(name).flatten(0, 1) for name in _COLUMNS]
        bank = [column.to(E.dtype if k < 3 else column.dtype, copy=True) for k, column in enumerate(columns)]

        def block(past_x: Tensor, past_z: Tensor, weights: Tensor, past_y: Tensor, domains: Tensor) -> Tensor:
            past, B = loss(past_z, past_y), (domains[:, None] == labels) * weights[:, None]
            grams = cross_grams(orders, residuals, batch.features, past, past_x, bias)
            return torch.stack([E.T @ grams[order] @ B for order in orders])

        step = max(1, _ENTRIES // len(E))
        pieces = list(zip(*(tensor.split(step) for tensor in bank), strict=True))
        if len(pieces) == 1:
            return block(*pieces[0])
        blocks = [checkpoint(block, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces]
        return torch.stack(blocks).sum(0)

    def _deposit(self, new: dict[str, Tensor]) -> None:
        """Overwrite the oldest batch, padded with rows of weight 0; a larger batch makes the bank wider."""
        rows, width = len(new["features"]), self.features.shape[1] if self.features.ndim > 1 else 0
        if rows > width or self.features.dtype != new["features"].dtype:
            for name, column in new.items():
                room = column.new_zeros(self.batches, max(rows, width), *column.shape[1:])
                if width:
                    room[:, :width] = self.get_buffer(name)
                setattr(self, name, room)
        self.weights.mul_(self.decay)
        for name, column in new.items():
            kept = self.get_buffer(name)
            filled = torch.cat([column, column.new_zeros(kept.shape[1] - rows, *column.shape[1:])])
            kept.index_copy_(0, self.oldest, filled[None].to(kept.dtype))
        self.oldest.add_(1).remainder_(self.batches)
