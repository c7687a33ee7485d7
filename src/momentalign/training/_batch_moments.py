"""Feature moments of a step's mini-batches in training mode: the estimate of the paper's VLCS figure."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import torch

from momentalign.algorithms import Network
from momentalign.runs import Record
from momentalign.training._evaluator import step_record
from momentalign.training._steps import Sampler, Training, raw_batches, seed_step


class BatchMoments:
    """Gaps of feature moments between the mini-batches of the training domains.

    The rows, augmentation and dropout are those of the recorded step, the weights those after it. Means and covariances
    of few rows are noisy, which adds to their distances: the gaps lie above those of the held-out sample, and differ
    more between records. Nothing of the network or of training is changed.

    Args:
        fabric: A launched Fabric.
        network: The network, not wrapped.
        training: What the steps use; without domains to compare (pooled) there are no records.
    """

    def __init__(self, fabric: Any, network: Network, training: Training) -> None:
        self.fabric, self.network = fabric, network
        own = training.sampler
        whole = Sampler(own.pools, own.keys, own.batch_size, own.trial, epochs=own.epochs)
        self.training = replace(training, sampler=whole, rank=0, workers=0)

    @torch.no_grad()
    def __call__(self, step: int) -> list[Record]:
        """Records `batch_moment_gap_1` and `batch_moment_gap_2` of a step, the same on all ranks."""
        from momentalign.theory import tensor_moment_gaps

        training = self.training
        number = len(training.sampler.pools)
        if number < 2:
            return []
        with closing(raw_batches(training, step, step + 1)) as batches:
            raw, _ = next(batches)
        seed_step(training.trial, step, training.rank, training.device)  # the next step seeds again
        buffers = {name: buffer.clone() for name, buffer in self.network.named_buffers()}
        with self.fabric.autocast():
            features, _ = self.network.forward(training.preprocessing.augment(raw))  # not the compiled call
        for name, buffer in self.network.named_buffers():
            buffer.copy_(buffers[name])
        if not bool(features.isfinite().all()):
            return []
        gaps = tensor_moment_gaps(features.double(), training.domains(), number)
        return [
            step_record(step, "batch_moment_gap_1", gaps.average_mean),
            step_record(step, "batch_moment_gap_2", gaps.average_covariance),
        ]
