"""Evaluation at a record: every domain, split and group, in large batches, shared out among the ranks."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import torch
from torch import Tensor

from momentalign.algorithms import Network
from momentalign.data import DomainDataset
from momentalign.runs import Record
from momentalign.training._data import training_split, validation_split
from momentalign.training._measures import MomentSample, accuracy_records, predictions_of
from momentalign.training._model import encoder_of
from momentalign.training._rows import Rows, batch_size_for


class Evaluator:
    """Makes a record's accuracies and moment gaps.

    Moments are those of the features of at most 2,048 held-out rows of each training domain, always the same ones.

    Args:
        fabric: Says which share of the rows is this rank's.
        network: What is trained, not wrapped.
        data: The data set.
        rows: Its rows.
        domains: Training domains.
        trial: The trial's seed.
        workers: Processes that read rows, where they have to be read.
    """

    def __init__(
        self,
        fabric: Any,
        network: Network,
        data: DomainDataset,
        rows: Rows,
        domains: Sequence[str],
        trial: int,
        workers: int,
    ) -> None:
        self.fabric, self.network, self.data, self.rows, self.workers = fabric, network, data, rows, workers
        self.preprocessing = encoder_of(network).preprocessing
        self.sample = MomentSample(rows, domains, (validation_split(data), training_split(data)), trial)
        self.sampled: dict[int, tuple[Tensor, Tensor]] = {}
        self.batch_size = batch_size_for(rows)

    @torch.no_grad()
    def __call__(self, step: int, watch: Callable[[float], None]) -> list[Record]:
        """Evaluate the network as it is.

        Args:
            step: The step that the records are of.
            watch: Told the share of rows that have been looked at, now and then.

        Returns:
            The records, the same on all ranks.
        """
        device = self.rows.targets.device
        correct = torch.zeros(len(self.rows), dtype=torch.int32, device=device)
        features = torch.zeros(len(self.sample.numbers), self.sample_width, device=device)
        self.network.eval()
        batches = predictions_of(
            self.network,
            self.rows,
            self.preprocessing,
            batch_size=self.batch_size,
            workers=self.workers,
            rank=self.fabric.global_rank,
            ranks=self.fabric.world_size,
        )
        with self.fabric.autocast(), closing(batches):
            for numbers, found, logits in batches:
                span = slice(int(numbers[0]), int(numbers[-1]) + 1)
                correct[span] = (logits.argmax(1) == self.rows.targets[span]).int()
                places, slots = self._sampled(numbers)
                features[slots] = found[places].float()
                watch(span.stop / len(self.rows))
        self.network.train()
        if self.fabric.world_size > 1:
            correct = self.fabric.all_reduce(correct, reduce_op="sum")
            features = self.fabric.all_reduce(features, reduce_op="sum")
        right = correct.cpu().numpy().astype(bool)
        return accuracy_records(self.data, self.rows, right, step) + self.sample.records(features, step)

    def _sampled(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Which rows of a batch are in the moments' sample, and where there; copied to the device once."""
        first = int(numbers[0])
        if first not in self.sampled:
            places, slots = self.sample.within(numbers)
            self.sampled[first] = places.to(self.rows.targets.device), slots.to(self.rows.targets.device)
        return self.sampled[first]

    @property
    def sample_width(self) -> int:
        """Width of the features."""
        return encoder_of(self.network).num_features
