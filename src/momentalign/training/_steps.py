"""Training steps: row sampling, augmentation, the algorithm's update, sums of logged values.

Rows are drawn in blocks of steps from generators keyed by trial, domain and block. A checkpoint saves the step only: a
CPU, a GPU, several ranks and a resumed run all draw the same rows.
"""

import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from momentalign._seeds import seed_hash
from momentalign.algorithms import Algorithm, Backward, Batch, WeightAverage
from momentalign.encoders import Preprocessing
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
    """Draws one mini-batch per training domain and step: with replacement, or each row once per epoch.

    Args:
        pools: Row indices of each training domain.
        keys: Seed key of each: the domain's position in the data set.
        batch_size: Rows of each domain in a step, of which a rank gets its share.
        epochs: Whether to draw each row once per epoch; a mini-batch may begin in one and end in the next.
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
    pools = [rows.indices(domain, split) for domain in domains]
    for domain, rows_of in zip(domains, pools, strict=True):
        if not len(rows_of):
            raise ValueError(f"Domain {domain!r} has no rows in split {split!r} to train on.")
    return [torch.cat(pools)] if pool else pools


def seed_step(trial: int, step: int, rank: int, device: torch.device) -> None:
    """Seed a step's augmentation, dropout and draws by its number and rank, so that checkpoints need no generators."""
    seed = seed_hash("augmentation", trial, step, rank)
    random.seed(seed)
    np.random.seed(seed)  # a user's algorithm may use it
    # The generators themselves: torch.manual_seed also looks for devices, at every step.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


@dataclass(frozen=True, eq=False)
class Training:
    """Everything that a step uses; `workers` processes read rows that are not on the device."""

    algorithm: Algorithm
    optimizers: Mapping[str, Optimizer]
    backward: Backward
    rows: DatasetRows
    sampler: Sampler
    preprocessing: Preprocessing
    trial: int
    rank: int
    workers: int
    average: WeightAverage | None = None

    @property
    def device(self) -> torch.device:
        """Device of the run."""
        return self.rows.targets.device

    def domains(self) -> Tensor:
        """Domain of each row of a batch: 0 … K − 1 in blocks, on the device."""
        number = len(self.sampler.pools)
        return torch.arange(number, device=self.device).repeat_interleave(self.sampler.rows // number)


Step = Callable[[int], None]
"""Runs the step with the given number; steps must be run in order."""


class Sums:
    """Sums over steps of logged values, on the device."""

    def __init__(self) -> None:
        self.totals: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Add the values of one step, and count it."""
        self.accumulate(terms)
        self.count(terms)

    def accumulate(self, terms: Mapping[str, Tensor]) -> None:
        """Add values: the part of add() that a CUDA graph can capture."""
        if not isinstance(terms, Mapping):
            raise TypeError(f"'update' should return a dict of values to log, but returned {terms!r}.")
        known = [name for name in terms if name in self.totals]
        for name in terms:
            if name not in known:
                if not isinstance(terms[name], Tensor):
                    kind = type(terms[name]).__name__
                    raise TypeError(f"'update' should return tensors to log, but '{name}' is a {kind}.")
                self.totals[name] = terms[name].detach().float().clone()
        if known:  # one operation for all: in a captured step their number is what counts
            torch._foreach_add_([self.totals[name] for name in known], [terms[name] for name in known])

    def clear(self) -> None:
        """Reset to zero."""
        for name, total in self.totals.items():
            total.zero_()  # in place: a captured step adds to it
            self.counts[name] = 0

    def count(self, names: Mapping[str, Tensor]) -> None:
        """Count one more step."""
        for name in names:
            self.counts[name] = self.counts.get(name, 0) + 1

    def take(self, reduce: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """Means over the steps since the last call, by name; `reduce` averages a tensor over ranks."""
        names = [name for name, count in self.counts.items() if count]
        if not names:
            return {}
        means = torch.stack([self.totals[name] / self.counts[name] for name in names])
        values = reduce(means).tolist()
        self.clear()
        return dict(zip(names, values, strict=True))


@contextmanager
def tuned_convolutions(rows: DatasetRows) -> Iterator[None]:
    """Let cuDNN benchmark its algorithms where the data are on a GPU: few shapes, and a small network.

    For large networks and a loader's batches of many sizes, benchmarking takes longer than it saves.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or (rows.on_device and rows.targets.is_cuda)
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def eager_step(training: Training, sums: Sums, start: int, stop: int) -> Iterator[Step]:
    """Run steps one operation at a time, from `start` to before `stop`; ends the processes that read rows on exit."""
    batches, domains = raw_batches(training, start, stop), training.domains()

    def step(number: int) -> None:
        raw, targets = next(batches)
        seed_step(training.trial, number, training.rank, training.device)
        batch = Batch(training.preprocessing.augment(raw), targets, domains)
        sums.add(training.algorithm.update(batch, training.optimizers, training.backward))
        if training.average is not None:
            training.average.add()

    with closing(batches):
        yield step


def raw_batches(training: Training, start: int, stop: int) -> Generator[tuple[Tensor, Tensor], None, None]:
    """Raw rows and targets on the device, step by step; closing it ends the processes that read rows."""
    return _gathered(training, start) if training.rows.on_device else _loaded(training, start, stop)


def _gathered(training: Training, start: int) -> Generator[tuple[Tensor, Tensor], None, None]:
    """Gather rows that are on the device."""
    raw, targets = training.rows.raw, training.rows.targets
    assert isinstance(raw, Tensor)
    step = start
    while True:
        block = training.sampler.block(step // BLOCK).to(training.device)
        for indices in block[step % BLOCK :]:
            yield raw.index_select(0, indices), targets.index_select(0, indices)
            step += 1


def _loaded(training: Training, start: int, stop: int) -> Generator[tuple[Tensor, Tensor], None, None]:
    """Rows that a loader prefetches."""
    targets = training.rows.targets
    for indices, raw in training.rows.read(training.sampler.steps(start, stop), training.workers):
        on_device = indices.to(targets.device, non_blocking=True)
        yield raw.to(targets.device, non_blocking=True), targets.index_select(0, on_device)
