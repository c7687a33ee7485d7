"""Batches with the same number of rows of every domain, for a PyTorch DataLoader."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Sampler

from momentalign._seeds import seed_hash
from momentalign._validation import check_count


class DomainBatchSampler(Sampler[list[int]]):
    """Draws batches with `rows` rows of every domain, domain after domain, for `DataLoader(batch_sampler=...)`.

    The mean loss of such a batch is the mean of the domains' losses, as the penalties assume, and a rare domain is in
    every batch. The rows of a domain are drawn in random order, all once before any is repeated; a small domain starts
    over while a large one continues.

    Args:
        domains: Domain of each row of the data set, shape (n,): integers or strings.
        rows: Rows of each domain in a batch, on all ranks together.
        batches: Batches of an epoch; None for as many as pass once through the largest domain.
        seed: Of the order; equal on all ranks.
        rank: Number of this process under `torch.distributed`, which gets its share of every domain.
        ranks: Number of processes. With Lightning set `use_distributed_sampler=False`.

    Example:
        >>> sampler = DomainBatchSampler(["Bern", "Basel", "Bern", "Bern", "Basel", "Bern"], rows=2)
        >>> len(sampler), [sorted(batch[2:]) for batch in sampler]  # Basel comes first, in every batch
        (2, [[3, 5], [0, 2]])
    """

    def __init__(
        self,
        domains: ArrayLike | Tensor,
        rows: int,
        *,
        batches: int | None = None,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        labels = np.asarray(domains)
        if labels.ndim != 1 or not len(labels):
            raise ValueError(f"'domains' should have shape (n,), one domain a row, but has shape {labels.shape}.")
        check_count("rows", rows, 1)
        check_count("seed", seed, 0)
        check_count("ranks", ranks, 1)
        if not 0 <= rank < ranks:
            raise ValueError(f"'rank' should be from 0 to {ranks - 1}, but is {rank}.")
        if rows % ranks:
            raise ValueError(
                f"'rows' should be a multiple of the number of processes ({ranks}), but is {rows}. "
                f"Use rows={-(-rows // ranks) * ranks}."
            )
        self.names, index = np.unique(labels, return_inverse=True)
        self.pools: Sequence[Tensor] = [torch.from_numpy(np.flatnonzero(index == k)) for k in range(len(self.names))]
        largest = max(len(pool) for pool in self.pools)
        self.batches = -(-largest // rows) if batches is None else check_count("batches", batches, 1)
        self.rows, self.seed, self.share = rows, seed, slice(rank * rows // ranks, (rank + 1) * rows // ranks)
        self.epoch = 0
        self._last: dict[int, tuple[int, Tensor]] = {}  # of each domain the last order, which many batches share

    def set_epoch(self, epoch: int) -> None:
        """Continue at the beginning of an epoch, as a resumed run does."""
        self.epoch = check_count("epoch", epoch, 0)

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the row numbers of each batch of an epoch; the next call continues with the next epoch."""
        first, self.epoch = self.epoch * self.batches, self.epoch + 1
        for batch in range(first, first + self.batches):
            yield torch.cat([self._drawn(k, batch)[self.share] for k in range(len(self.pools))]).tolist()

    def _drawn(self, domain: int, batch: int) -> Tensor:
        """Rows of a domain in a batch: a slice of an endless sequence of shuffled epochs."""
        pool, start = self.pools[domain], batch * self.rows
        rounds = range(start // len(pool), -(-(start + self.rows) // len(pool)))
        order = torch.cat([self._order(domain, number) for number in rounds])
        begin = start - rounds[0] * len(pool)
        return pool[order[begin : begin + self.rows]]

    def _order(self, domain: int, number: int) -> Tensor:
        if domain not in self._last or self._last[domain][0] != number:
            generator = torch.Generator().manual_seed(seed_hash("batches", self.seed, domain, number))
            self._last[domain] = number, torch.randperm(len(self.pools[domain]), generator=generator)
        return self._last[domain][1]
