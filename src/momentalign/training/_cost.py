"""Cost of a run, measured on a few of its steps."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign.algorithms import Algorithm
from momentalign.data import DomainDataset, Split
from momentalign.runs import RunConfig
from momentalign.training._data import open_dataset
from momentalign.training._devices import takes_cuda
from momentalign.training._model import training_domains, warn_unusual
from momentalign.training._options import Clock
from momentalign.training._run import run

_FEW, _MORE = 4, 21
"""Steps of the first measurement, and of a second one if that was quick, or on CUDA, where libraries load only once."""

_QUICK = 0.5
"""Seconds."""

_ROWS, _FILES = 128, 8
"""Rows of each split that are evaluated, and fewer where they are files; all where they are on a GPU."""

_BRIEF = 2
"""Steps of each brief measurement; the first step, which loads libraries, is not timed."""

_BRIEF_SHARE = 1 / 16
"""Of the batch and of the evaluated rows that a brief measurement on a CPU takes, where time grows with both."""


class RunCost(NamedTuple):
    """Cost of a run.

    Args:
        seconds: In total.
        step_seconds: Of one step.
        record_seconds: Of one record, evaluation of all rows included.
        records: Number of records.
        memory_gib: Peak memory; on CPU that of the process.
        weights: Bytes of the weights that a finished run keeps; 0 where several devices train, in other processes.
        splits: Number of splits in a record, over all domains.
    """

    seconds: float
    step_seconds: float
    record_seconds: float
    records: int
    memory_gib: float
    weights: int
    splits: int


def estimate_run(
    config: RunConfig, *, data: DomainDataset | None = None, brief: bool = False, **options: Any
) -> RunCost:
    """Measure what a run will cost, on a few steps and a few rows; nothing is written.

    Args:
        config: What would be run.
        data: The data set, where it has no name.
        brief: Measure a small part of a batch, where it is on a CPU, instead of whole steps: a rough estimate.
        **options: As for :func:`run`.
    """
    if data is None:
        data = open_dataset(config, options.get("root"), skip_bad_files=options.get("skip_bad_files", False))
    cuda = takes_cuda(options.get("accelerator", "auto"))
    share = _BRIEF_SHARE if brief and not cuda else 1.0
    sample = data.map_splits(lambda rows: _sample(rows, cuda, share))
    warn_unusual(config, data)
    weights = 0

    def weigh(algorithm: Algorithm) -> None:
        nonlocal weights
        weights = sum(tensor.nbytes for tensor in algorithm.network.state_dict().values())

    own: dict[str, Any] = {"progress": None, "built": weigh if options.get("devices", 1) == 1 else None}
    whole = config.hparams["batch_size"]
    batch = max(2, round(whole * share)) if share < 1 else whole  # of one row there is no covariance
    for steps in (_BRIEF, _BRIEF) if brief else (_FEW, _MORE):
        clock = Clock()
        number = min(steps, config.steps)
        hparams = {**config.hparams, "batch_size": batch}
        short = dataclasses.replace(config, steps=number, record_every=number, hparams=hparams)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the sample, which is smaller than the data
            last = run(short, None, data=sample, **{**options, **own, "clock": clock})
        options["log"] = None  # logged once
        if clock.seconds["steps"] > _QUICK and not cuda:
            break
    values = {record["metric"]: record["value"] or 0.0 for record in last if record["domain"] is None}
    seen = () if options.get("train_accuracy", True) else training_domains(config, data)
    rows = _evaluated(data, seen) / max(1, _evaluated(sample, seen))
    record_seconds = rows * clock.seconds["evaluation"] / 2
    records = len(range(0, config.steps, config.record_every)) + ((config.steps - 1) % config.record_every > 0)
    step_seconds = values["step_seconds"] * whole / batch
    seconds = clock.seconds["set-up"] + config.steps * step_seconds + records * record_seconds
    memory, splits = values.get("memory_gib", 0.0), sum(len(splits) for splits in data.domains.values())
    return RunCost(seconds, step_seconds, record_seconds, records, memory, weights, splits)


def _evaluated(data: DomainDataset, without_training: Sequence[str]) -> int:
    """Number of rows of all splits, for some domains without those that are trained on."""
    return sum(
        len(rows)
        for domain, splits in data.domains.items()
        for split, rows in splits.items()
        if domain not in without_training or split != data.training_split
    )


def _sample(rows: Split, cuda: bool, share: float) -> Split:
    in_memory = isinstance(rows.inputs, Tensor)
    if cuda and in_memory:
        return rows
    number = max(1, round(share * (_ROWS if in_memory else _FILES)))
    return rows.rows(torch.arange(min(number, len(rows))))
