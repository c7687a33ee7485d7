r"""Memory of past batches, domain by domain: decaying sums of vectors.

With a decay :math:`\gamma` a domain's value :math:`v_e` of this batch becomes
:math:`D_e(t) = \sum_k \gamma^k v_e(t-k)`, the past detached: the current batch keeps weight one. This is
:math:`v_e + \gamma/(1-\gamma)\,s_e` with the moving average :math:`s \leftarrow \gamma s + (1-\gamma) v` that starts
at 0. A domain missing from a batch keeps its sum, decayed.
"""

from typing import Any

import torch
from torch import Tensor, nn


class DomainMemory(nn.Module):
    """Labels of the domains seen so far, and buffers that get their size from the first batch.

    With `num_domains` the labels are 0 … num_domains − 1 from the start; without, collecting them synchronises once a
    batch.
    """

    labels: Tensor

    def __init__(self, names: list[str], num_domains: int | None, decay: float) -> None:
        super().__init__()
        self.decay, self.fixed = decay, num_domains is not None
        self.register_buffer("labels", torch.arange(num_domains or 0))
        for name in names:
            self.register_buffer(name, torch.zeros(0))

    def index(self, domains: Tensor) -> Tensor:
        """Labels including those of the batch, ascending."""
        known = self.labels
        if self.fixed or (len(known) and bool(torch.isin(domains, known).all())):
            return known
        labels: Tensor = torch.cat([known, domains.to(known.dtype)]).unique()
        return labels

    def has(self, name: str) -> bool:
        """Whether a buffer has its size."""
        buffer = self._buffers[name]
        return buffer is not None and buffer.numel() > 0

    def past(self, name: str, like: tuple[int, ...], dtype: torch.dtype, labels: Tensor) -> Tensor | None:
        """Stored sums, expanded to `labels`, cast as the module may have been; None before the first batch."""
        if not self.has(name):
            return None
        kept = self.get_buffer(name)
        self.check_widths(kept.shape[1:], like)
        return self.expanded(kept, labels).to(dtype)

    def add(self, name: str, value: Tensor, labels: Tensor, *, update: bool) -> Tensor:
        """Add the decayed past to a value, shape (K, …) over `labels`."""
        past = self.past(name, value.shape[1:], value.dtype, labels)
        value = value if past is None else torch.add(value, past, alpha=self.decay)
        if update:
            self.store(name, value)
        return value

    def check_widths(self, before: tuple[int, ...], now: tuple[int, ...]) -> None:
        """Check that a batch is of the same head as those before."""
        if tuple(before) != tuple(now):
            raise ValueError(
                f"'features' and 'logits' should keep their widths under momentum, but a sum has shape {tuple(now)} "
                f"after {tuple(before)}. Use a new penalty for another head."
            )

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
        buffer = self._buffers[name]
        if buffer is value:
            return
        if buffer is not None and buffer.shape == value.shape and buffer.dtype == value.dtype:
            buffer.copy_(value.detach())
        else:
            setattr(self, name, value.detach().clone())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, buffer in self._buffers.items():
            saved = state_dict.get(prefix + name)
            if buffer is not None and isinstance(saved, Tensor) and saved.shape != buffer.shape:
                self._buffers[name] = torch.empty_like(saved, device=buffer.device)
        super()._load_from_state_dict(state_dict, prefix, *args)
