"""One training step, as the loop calls it: rows, augmentation, the algorithm's update, sums of what it logs."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from momentalign.algorithms import Algorithm, Backward, Batch
from momentalign.encoders import Preprocessing
from momentalign.training._data import DatasetRows
from momentalign.training._sampling import BLOCK, Sampler, seed_step


@dataclass(frozen=True, eq=False)
class Training:
    """Everything that a step uses.

    Attributes:
        backward: Of Fabric.
        sampler: Draws the rows of a step.
        preprocessing: Of the encoder.
        trial: The trial's seed.
        workers: Processes that read rows, where they have to be read.
    """

    algorithm: Algorithm
    optimizers: Mapping[str, Optimizer]
    backward: Backward
    rows: DatasetRows
    sampler: Sampler
    preprocessing: Preprocessing
    trial: int
    rank: int
    workers: int

    @property
    def device(self) -> torch.device:
        """Device of the run."""
        return self.rows.targets.device

    def domains(self) -> Tensor:
        """Domain of each row of a batch: 0 … K − 1 in blocks, on the device."""
        number = len(self.sampler.pools)
        return torch.arange(number, device=self.device).repeat_interleave(self.sampler.rows // number)


Step = Callable[[int], None]
"""Runs the step with the given number; steps have to come in order."""


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
def eager_step(training: Training, sums: Sums, start: int, stop: int) -> Iterator[Step]:
    """Run steps one operation at a time, from `start` to before `stop`; ends the processes that read rows on exit."""
    batches = _gathered(training, start) if training.rows.on_device else _loaded(training, start, stop)
    domains = training.domains()

    def step(number: int) -> None:
        raw, targets = next(batches)
        seed_step(training.trial, number, training.rank, training.device)
        batch = Batch(training.preprocessing.augment(raw), targets, domains)
        sums.add(training.algorithm.update(batch, training.optimizers, training.backward))

    with closing(batches):
        yield step


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
        there = indices.to(targets.device, non_blocking=True)
        yield raw.to(targets.device, non_blocking=True), targets.index_select(0, there)
