"""Feature moments of a step's mini-batches in training mode: the estimate of the paper's VLCS figure."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import torch

from momentalign.algorithms import Network
from momentalign.runs import Record
from momentalign.training._evaluator import step_record
from momentalign.training._steps import Sampler, Training, raw_batches, seed_step


@torch.no_grad()
def batch_moments(fabric: Any, network: Network, training: Training, step: int) -> list[Record]:
    """Gaps of feature moments between a step's mini-batches: records `batch_moment_gap_1` and `batch_moment_gap_2`.

    The rows, augmentation and dropout are those of the step, the weights those after it; all ranks compute the same
    records. Means and covariances of few rows are noisy, so the gaps are larger than those of the held-out sample, and
    differ more between records. The network, which is not wrapped, and its buffers are unchanged. Pooled training has
    no domains to compare, and no records.
    """
    from momentalign.theory import tensor_moment_gaps

    own = training.sampler
    if len(own.pools) < 2:
        return []
    whole = Sampler(own.pools, own.keys, own.batch_size, own.trial, epochs=own.epochs)
    training = replace(training, sampler=whole, rank=0, workers=0)
    with closing(raw_batches(training, step, step + 1)) as batches:
        raw, _ = next(batches)
    seed_step(training.trial, step, training.rank, training.device)  # the next step seeds again
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    with fabric.autocast():
        features, _ = network.forward(training.preprocessing.augment(raw))  # not the compiled call
    for name, buffer in network.named_buffers():
        buffer.copy_(buffers[name])
    if not bool(features.isfinite().all()):
        return []
    gaps = tensor_moment_gaps(features.double(), training.domains(), len(own.pools))
    return [
        step_record(step, "batch_moment_gap_1", gaps.average_mean),
        step_record(step, "batch_moment_gap_2", gaps.average_covariance),
    ]
