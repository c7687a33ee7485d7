r"""Decaying sums of derivatives by the Gram route: a bank of past batches instead of tensors of size (Cd)^r.

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
from momentalign.closed_form import HEADS, Residuals, cross_grams, domain_grams
from momentalign.penalties._memory import DomainMemory

_NEGLIGIBLE = 1e-3
_ENTRIES = 2**22


class GramBank(DomainMemory):
    """Domain Grams of decaying sums of derivatives.

    Args:
        orders: Orders of the derivative.
        loss: Name of the loss.
        bias: Whether the head has one.
        num_domains: See :class:`DomainMemory`.
        decay: γ.
    """

    grams: Tensor
    features: Tensor
    logits: Tensor
    targets: Tensor
    domains: Tensor
    weights: Tensor
    oldest: Tensor

    def __init__(self, orders: list[int], loss: str, bias: bool, num_domains: int | None, decay: float) -> None:
        super().__init__(num_domains, decay)
        self.orders, self.loss, self.bias = orders, loss, bias
        self.batches = math.ceil(math.log(_NEGLIGIBLE) / math.log(decay))
        self.register_buffer("oldest", torch.zeros(1, dtype=torch.long))
        for name in ("grams", "features", "logits", "targets", "domains", "weights"):
            self.register_buffer(name, torch.zeros(0))

    def forward(self, batch: HeadBatch, labels: Tensor, E: Tensor, *, update: bool) -> list[Tensor]:
        """Domain Gram of each order with the past in it.

        Args:
            batch: The current batch.
            labels: As :meth:`DomainMemory.index` gave them.
            E: Weights that came with them, shape (n, K).
            update: Whether to put the batch into the bank.

        Returns:
            One (K, K) matrix an order, over `labels`.
        """
        residuals = HEADS[self.loss](batch.logits, batch.targets)
        grams = domain_grams(self.orders, residuals, batch.features, E, self.bias)
        if self.grams.numel():
            crossed = self._crossed(batch, residuals, labels, E)
            past = self.spread_out(self.grams, labels, axes=(1, 2)).to(E.dtype)
            grams = [
                now + self.decay * (cross + cross.T) + self.decay**2 * before
                for now, cross, before in zip(grams, crossed, past, strict=True)
            ]
        if update:
            with torch.no_grad():
                self.keep("grams", torch.stack(grams))
                self.keep("labels", labels)
                self._deposit(HeadBatch(*(tensor.detach() for tensor in batch)), E)
        return grams

    def _crossed(self, batch: HeadBatch, residuals: Residuals, labels: Tensor, E: Tensor) -> list[Tensor]:
        """Blocks Eᵀ G' B, recomputed in backward where the bank is larger than a tile."""
        # Copies: backward reads them, and by then this batch has been written into the bank.
        # The module may have been cast since it was written.
        features, logits = (tensor.flatten(0, 1).to(E.dtype, copy=True) for tensor in (self.features, self.logits))
        bank = (features, logits, self.targets.flatten(0, 1).clone())
        B = (self.domains.flatten()[:, None] == labels) * self.weights.flatten()[:, None].to(E.dtype)

        def block(past_x: Tensor, past_z: Tensor, past_y: Tensor, past_B: Tensor) -> Tensor:
            past = HEADS[self.loss](past_z, past_y)
            grams = cross_grams(self.orders, residuals, batch.features, past, past_x, self.bias)
            return torch.stack([E.T @ grams[order] @ past_B for order in self.orders])

        step = max(1, _ENTRIES // len(E))
        pieces = list(zip(*(tensor.split(step) for tensor in (*bank, B)), strict=True))
        if len(pieces) == 1:
            return list(block(*pieces[0]))
        blocks = [checkpoint(block, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces]
        return list(torch.stack(blocks).sum(0))

    def _deposit(self, batch: HeadBatch, E: Tensor) -> None:
        """Overwrite the oldest batch; rows a batch lacks weigh nothing, rows it has too many of make the bank wider."""
        self._make_room(batch)
        rows, width = len(batch.features), self.features.shape[1]
        padding = width - rows
        self.weights.mul_(self.decay)
        for kept, new in (
            (self.features, batch.features),
            (self.logits, batch.logits),
            (self.targets, batch.targets),
            (self.domains, batch.domains),
            (self.weights, E.sum(1)),
        ):
            filled = torch.cat([new, new.new_zeros(padding, *new.shape[1:])]) if padding else new
            kept.index_copy_(0, self.oldest, filled[None].to(kept.dtype))
        self.oldest.add_(1).remainder_(self.batches)

    def _make_room(self, batch: HeadBatch) -> None:
        width = self.features.shape[1] if self.features.ndim > 1 else 0
        rows = max(width, len(batch.features))
        if rows == width and self.features.dtype == batch.features.dtype:
            return
        for name, like in (
            ("features", batch.features),
            ("logits", batch.logits),
            ("targets", batch.targets),
            ("domains", batch.domains.long()),
            ("weights", batch.features[:, 0]),
        ):
            room = like.new_zeros(self.batches, rows, *like.shape[1:])
            if width:
                room[:, :width] = getattr(self, name)
            setattr(self, name, room)
