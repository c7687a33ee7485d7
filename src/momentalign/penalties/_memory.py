r"""What a penalty keeps of past batches, domain by domain: sums that decay.

With a decay :math:`\gamma` a domain's value :math:`v_e` of this batch becomes
:math:`D_e(t) = \sum_k \gamma^k v_e(t-k)`, the past detached: the current batch keeps weight one. This is
:math:`v_e + \gamma/(1-\gamma)\,s_e` with the moving average :math:`s \leftarrow \gamma s + (1-\gamma) v` that starts
at 0. A domain missing from a batch keeps its sum, decayed.
"""

from typing import Any

import torch
from torch import Tensor, nn

from momentalign.closed_form import same


class DomainMemory(nn.Module):
    """Labels of the domains seen so far, and buffers whose size is known only when batches come.

    Args:
        num_domains: Labels are 0 … num_domains − 1 from the start; None collects them as they come, which
            synchronises once a batch.
        decay: γ.
    """

    labels: Tensor

    def __init__(self, num_domains: int | None, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.fixed = num_domains is not None
        self.register_buffer("labels", torch.arange(num_domains or 0))

    def with_labels_of(self, domains: Tensor) -> Tensor:
        """Labels with those of the batch included, ascending."""
        return self.labels if self.fixed else torch.cat([self.labels, domains.to(self.labels.dtype)]).unique()

    def index(self, domains: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Labels with those of the batch included, and weights (n, K) that average each domain's samples."""
        labels = self.with_labels_of(domains)
        member = same(domains, labels, dtype)
        return labels, member / member.sum(0).clamp(min=1)

    def spread_out(self, kept: Tensor, labels: Tensor, axes: tuple[int, ...] = (0,)) -> Tensor:
        """Lay what is kept per known domain out over `labels`, zero for new ones."""
        if len(labels) == len(self.labels):
            return kept
        positions = torch.searchsorted(labels, self.labels)
        for axis in axes:
            shape = [len(labels) if k == axis else size for k, size in enumerate(kept.shape)]
            kept = kept.new_zeros(shape).index_copy(axis, positions, kept)
        return kept

    def keep(self, name: str, value: Tensor) -> None:
        """Write to a buffer, in place where it has the shape, so that a captured step finds it again."""
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
    """Decaying sums of vectors, one for each domain and name.

    Args:
        names: Names of what is summed.
        num_domains: See :class:`DomainMemory`.
        decay: γ.
    """

    def __init__(self, names: list[str], num_domains: int | None, decay: float) -> None:
        super().__init__(num_domains, decay)
        for name in names:
            self.register_buffer(name, torch.zeros(0, 0))

    def forward(self, values: dict[str, Tensor], labels: Tensor, *, update: bool) -> dict[str, Tensor]:
        """Add the past to this batch's values.

        Args:
            values: Vectors of the domains of `labels`, shape (K, N), zero for a domain that is missing.
            labels: As :meth:`DomainMemory.index` gave them.
            update: Whether to keep the sums for the next batch.

        Returns:
            The sums, shape (K, N) for each name.
        """
        sums = {}
        for name, value in values.items():
            past = self.past(name, labels)
            sums[name] = value if past is None else torch.add(value, past, alpha=self.decay)
        if update:
            self.remember(sums, labels)
        return sums

    def past(self, name: str, labels: Tensor) -> Tensor | None:
        """The sums kept so far, laid out over `labels`; None before the first batch."""
        kept = self.get_buffer(name)
        return self.spread_out(kept, labels) if kept.numel() else None

    def remember(self, sums: dict[str, Tensor], labels: Tensor) -> None:
        """Keep the sums for the next batch."""
        for name, total in sums.items():
            self.keep(name, total)
        self.keep("labels", labels)
