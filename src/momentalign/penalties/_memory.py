r"""Memory of past batches, domain by domain: decaying sums of vectors, and a bank of batches for the Gram route.

With a decay :math:`\gamma` a domain's value :math:`v_e` of this batch becomes
:math:`D_e(t) = \sum_k \gamma^k v_e(t-k)`, the past detached: the current batch keeps weight one. This is
:math:`v_e + \gamma/(1-\gamma)\,s_e` with the moving average :math:`s \leftarrow \gamma s + (1-\gamma) v` that starts
at 0. A domain missing from a batch keeps its sum, decayed.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from momentalign._batch import HeadBatch
from momentalign.closed_form import HEADS, Residuals, cross_grams, domain_grams, domain_weights

_NEGLIGIBLE = 1e-3
"""Weight below which a batch leaves the bank."""

_ENTRIES = 2**22
"""Entries of a block between batch and bank."""


class DomainMemory(nn.Module):
    """Labels of the domains seen so far, and buffers that get their size from the first batch.

    With `num_domains` the labels are 0 … num_domains − 1 from the start; without, collecting them synchronises once a
    batch.
    """

    labels: Tensor

    def __init__(self, num_domains: int | None, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.fixed = num_domains is not None
        self.widths: tuple[int, int] | None = None
        self.register_buffer("labels", torch.arange(num_domains or 0))

    def check_widths(self, batch: HeadBatch, sizes: dict[str, int], *, update: bool) -> None:
        """Check that a batch is of the same head as those before; `sizes` are the lengths of its rows in the buffers.

        Widths are not in the state: after loading, a head with as many parameters as the one before is not noticed.
        """
        now = batch.features.shape[1], batch.logits.shape[1]
        kept = {name: self.get_buffer(name) for name in sizes}
        fits = all(not buffer.numel() or buffer.shape[-1] == sizes[name] for name, buffer in kept.items())
        if not fits or self.widths not in (None, now):
            before = "other widths" if self.widths is None else "shapes (n, {}) and (n, {})".format(*self.widths)
            raise ValueError(
                f"'features' and 'logits' should keep their widths under momentum, but have shapes (n, {now[0]}) and "
                f"(n, {now[1]}) after {before}. Use a new penalty for another head."
            )
        if update:
            self.widths = now

    def extended_labels(self, domains: Tensor) -> Tensor:
        """Labels including those of the batch, ascending."""
        return self.labels if self.fixed else torch.cat([self.labels, domains.to(self.labels.dtype)]).unique()

    def index(self, domains: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Labels including those of the batch, and weights (n, K) that average each domain's samples."""
        labels = self.extended_labels(domains)
        return labels, domain_weights(domains, labels, dtype)

    def expanded(self, kept: Tensor, labels: Tensor, axes: tuple[int, ...] = (0,)) -> Tensor:
        """Expand entries of the known domains to `labels`, with zeros for new ones."""
        if len(labels) == len(self.labels):
            return kept
        positions = torch.searchsorted(labels, self.labels)
        for axis in axes:
            shape = [len(labels) if k == axis else size for k, size in enumerate(kept.shape)]
            kept = kept.new_zeros(shape).index_copy(axis, positions, kept)
        return kept

    def store(self, name: str, value: Tensor) -> None:
        """Write to a buffer, in place if the shape allows, as a captured step needs it."""
        buffer = self.get_buffer(name)
        if buffer is value:
            return
        if buffer.shape == value.shape and buffer.dtype == value.dtype:
            buffer.copy_(value.detach())
        else:
            setattr(self, name, value.detach().clone())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, buffer in self._buffers.items():
            saved = state_dict.get(prefix + name)
            if buffer is not None and isinstance(saved, Tensor) and saved.shape != buffer.shape:
                self._buffers[name] = torch.empty_like(saved, device=buffer.device)
        super()._load_from_state_dict(state_dict, prefix, *args)


class DecayedSums(DomainMemory):
    """Decaying sums of vectors, one for each domain and name."""

    def __init__(self, names: list[str], num_domains: int | None, decay: float) -> None:
        super().__init__(num_domains, decay)
        self.names = names
        for name in names:
            self.register_buffer(name, torch.zeros(0, 0))

    def forward(self, values: dict[str, Tensor], labels: Tensor, *, update: bool) -> dict[str, Tensor]:
        """Add the past to this batch's values, shape (K, N) over `labels`, zero for a missing domain."""
        sums = dict(values)
        for name, past in self.past(labels, next(iter(values.values())).dtype).items():
            sums[name] = torch.add(values[name], past, alpha=self.decay)
        if update:
            self.remember(sums, labels)
        return sums

    def past(self, labels: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        """Stored sums, expanded to `labels`, cast as the module may have been; empty before the first batch."""
        kept = {name: self.get_buffer(name) for name in self.names}
        return {name: self.expanded(sums, labels).to(dtype) for name, sums in kept.items() if sums.numel()}

    def remember(self, sums: dict[str, Tensor], labels: Tensor) -> None:
        """Store the sums for the next batch."""
        for name, total in sums.items():
            self.store(name, total)
        self.store("labels", labels)


class GramBank(DomainMemory):
    r"""Domain Grams of decaying sums of derivatives, from a bank of past batches instead of tensors of size (Cd)^r.

    Legend: E (n, K) averages the current batch's domains, B (N, K) the weights γ^k/n_e of the bank's rows, k batches
    old. With D(t) = v(t) + γ D(t−1) the domain Gram is

    .. math:: M(t) = E^\top G E + \gamma E^\top G' B + (\gamma E^\top G' B)^\top + \gamma^2 M(t-1)

    where G is the current batch's sample Gram, G' the one between the batch and the bank, and the last block is a
    K x K buffer. Batches older than the m with γ^m < 1e-3 leave the bank.
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
        """Domain Gram (K, K) of each order with the past in it; `labels` and `E` are those of :meth:`index`."""
        residuals = HEADS[self.loss](batch.logits, batch.targets)
        grams = domain_grams(self.orders, residuals, batch.features, E, self.bias)
        if self.grams.numel():
            crossed = self._crossed(batch, residuals, labels, E)
            past = self.expanded(self.grams, labels, axes=(1, 2)).to(E.dtype)
            grams = [
                now + self.decay * (cross + cross.T) + self.decay**2 * before
                for now, cross, before in zip(grams, crossed, past, strict=True)
            ]
        if update:
            with torch.no_grad():
                self.store("grams", torch.stack(grams))
                self.store("labels", labels)
                self._deposit(HeadBatch(*(tensor.detach() for tensor in batch)), E)
        return grams

    def _crossed(self, batch: HeadBatch, residuals: Residuals, labels: Tensor, E: Tensor) -> list[Tensor]:
        """Blocks Eᵀ G' B, recomputed in backward if the bank is larger than a tile."""
        # Copies, because this batch overwrites the bank before backward; cast, because the module may have been.
        floats = (tensor.flatten(0, 1).to(E.dtype, copy=True) for tensor in (self.features, self.logits, self.weights))
        bank = (*floats, self.targets.flatten(0, 1).clone(), self.domains.flatten().clone())

        def block(past_x: Tensor, past_z: Tensor, weights: Tensor, past_y: Tensor, domains: Tensor) -> Tensor:
            past, B = HEADS[self.loss](past_z, past_y), (domains[:, None] == labels) * weights[:, None]
            grams = cross_grams(self.orders, residuals, batch.features, past, past_x, self.bias)
            return torch.stack([E.T @ grams[order] @ B for order in self.orders])

        step = max(1, _ENTRIES // len(E))
        pieces = list(zip(*(tensor.split(step) for tensor in bank), strict=True))
        if len(pieces) == 1:
            return list(block(*pieces[0]))
        blocks = [checkpoint(block, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces]
        return list(torch.stack(blocks).sum(0))

    def _deposit(self, batch: HeadBatch, E: Tensor) -> None:
        """Overwrite the oldest batch, padded with rows of weight 0; a larger batch makes the bank wider."""
        new = {**batch._asdict(), "domains": batch.domains.long(), "weights": E.sum(1)}
        self._make_room(new)
        padding = self.features.shape[1] - len(batch.features)
        self.weights.mul_(self.decay)
        for name, rows in new.items():
            kept = self.get_buffer(name)
            filled = torch.cat([rows, rows.new_zeros(padding, *rows.shape[1:])]) if padding else rows
            kept.index_copy_(0, self.oldest, filled[None].to(kept.dtype))
        self.oldest.add_(1).remainder_(self.batches)

    def _make_room(self, new: dict[str, Tensor]) -> None:
        width = self.features.shape[1] if self.features.ndim > 1 else 0
        most = max(width, len(new["features"]))
        if most == width and self.features.dtype == new["features"].dtype:
            return
        for name, rows in new.items():
            room = rows.new_zeros(self.batches, most, *rows.shape[1:])
            if width:
                room[:, :width] = self.get_buffer(name)
            setattr(self, name, room)
