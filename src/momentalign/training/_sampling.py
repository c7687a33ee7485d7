"""Which rows a step sees: drawn in blocks of steps, from generators keyed by trial, domain and block.

A checkpoint saves the step only: a CPU, a GPU, several ranks and a resumed run all draw the same rows.
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from momentalign._seeds import seed_hash
from momentalign.training._data import DatasetRows

BLOCK = 100
"""Steps whose rows are drawn at once."""


def check_divisible(batch_size: int, ranks: int) -> None:
    """Raise ValueError where mini-batches cannot be shared evenly."""
    if batch_size % ranks:
        raise ValueError(
            f"'batch_size' should be a multiple of the number of devices ({ranks}), but is {batch_size}. "
            f"Use --set batch_size={-(-batch_size // ranks) * ranks}."
        )


class Sampler:
    """Draws one mini-batch per training domain and step: with replacement, or each row once an epoch.

    Args:
        pools: Row indices of each training domain.
        keys: Seed key of each: the domain's position in the data set.
        batch_size: Rows of each domain in a step.
        trial: The trial's seed.
        rank: Which share of every mini-batch to return.
        ranks: Number of shares.
        epochs: Whether to draw each row once an epoch; a mini-batch may begin in one and end in the next.
    """

    def __init__(
        self,
        pools: Sequence[Tensor],
        keys: Sequence[int],
        batch_size: int,
        trial: int,
        rank: int = 0,
        ranks: int = 1,
        *,
        epochs: bool = False,
    ) -> None:
        check_divisible(batch_size, ranks)
        self.epochs = epochs
        self.pools, self.keys, self.batch_size, self.trial = pools, keys, batch_size, trial
        self.share = slice(rank * batch_size // ranks, (rank + 1) * batch_size // ranks)
        self.rows = len(pools) * batch_size // ranks

    def block(self, number: int) -> Tensor:
        """Row indices on the host of the steps from `number` · BLOCK on, domain after domain, shape (BLOCK, rows)."""
        drawn = []
        for pool, key in zip(self.pools, self.keys, strict=True):
            draw = self._in_order if self.epochs else self._with_replacement
            drawn.append(pool[draw(len(pool), key, number)[:, self.share]])
        return torch.cat(drawn, dim=1)

    def _with_replacement(self, rows: int, key: int, block: int) -> Tensor:
        return torch.randint(rows, (BLOCK, self.batch_size), generator=self._generator(key, block))

    def _in_order(self, rows: int, key: int, block: int) -> Tensor:
        """Rows of an endless sequence of epochs, each of which has all rows once in a new order."""
        first = block * BLOCK * self.batch_size
        end = first + BLOCK * self.batch_size
        epochs = range(first // rows, -(-end // rows))
        orders = torch.cat([torch.randperm(rows, generator=self._generator(key, epoch)) for epoch in epochs])
        start = first - epochs[0] * rows
        return orders[start : start + end - first].view(BLOCK, self.batch_size)

    def _generator(self, key: int, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed_hash("sampling", self.trial, key, number))

    def steps(self, start: int, stop: int) -> Iterator[Tensor]:
        """Row indices on the host step by step, shape (rows,)."""
        for step in range(start, stop):
            if step == start or step % BLOCK == 0:
                block = self.block(step // BLOCK)
            yield block[step % BLOCK]


def training_pools(rows: DatasetRows, domains: Sequence[str], split: str, *, pool: bool) -> list[Tensor]:
    """Row indices to draw from: one tensor a training domain, or one of all; raises for a domain without rows."""
    pools = []
    for domain in domains:
        first, end = rows.spans.get((domain, split), (0, 0))
        if first == end:
            raise ValueError(f"Domain {domain!r} has no rows in split {split!r} to train on.")
        pools.append(torch.arange(first, end))
    return [torch.cat(pools)] if pool else pools


def seed_step(trial: int, step: int, rank: int, device: torch.device) -> None:
    """Seed what is random within a step (augmentation, dropout, an algorithm's draws) by its number and rank.

    So a checkpoint does not have to save the state of the generators.
    """
    seed = seed_hash("augmentation", trial, step, rank)
    random.seed(seed)
    np.random.seed(seed)  # a user's algorithm may use it
    # The generators themselves: torch.manual_seed also looks for devices, at every step.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
