"""What a run will cost, measured on a few of its steps."""

import dataclasses
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign.algorithms import Algorithm
from momentalign.data import DomainDataset, Split
from momentalign.runs import RunConfig
from momentalign.training._data import open_dataset
from momentalign.training._devices import takes_cuda
from momentalign.training._model import warn_of_oddities
from momentalign.training._options import Clock
from momentalign.training._run import run

_FEW, _MORE = 4, 21
"""Steps that are done first, and again more of them where those were quick and say little, and on CUDA: a process waits
for its libraries there once, not at every run."""

_QUICK = 0.5
"""Seconds."""

_ROWS, _FILES = 128, 8
"""Rows of each split that are evaluated for the measurement, and fewer where they have to be read; all where they are
on a GPU, which is for many at once."""


class Cost(NamedTuple):
    """What a run will take.

    Args:
        seconds: In all.
        step_seconds: Of one step.
        record_seconds: Of one record, evaluation of all rows included.
        records: Number of records.
        memory_gib: Most memory in use; on CPU the whole process's.
        weights: Bytes of the weights that a finished run keeps; 0 where several devices train, in other processes.
        splits: Number of splits that a record is of, over all domains.
    """

    seconds: float
    step_seconds: float
    record_seconds: float
    records: int
    memory_gib: float
    weights: int
    splits: int


def estimate(config: RunConfig, *, data: DomainDataset | None = None, **options: Any) -> Cost:
    """Measure what a run will cost, on a few steps and a few rows; nothing is written.

    Args:
        config: What would be run.
        data: The data set, where it has no name.
        **options: As for :func:`run`.

    Returns:
        The cost.
    """
    skip = options.get("skip_bad_files", False)
    if data is None:
        data = open_dataset(
            config.dataset, trial=config.trial, root=options.get("root"), holdout=config.holdout, skip_bad_files=skip
        )
    cuda = takes_cuda(options.get("accelerator", "auto"))
    few = {
        domain: {split: _some(rows, cuda) for split, rows in splits.items()} for domain, splits in data.domains.items()
    }
    sample = data.with_domains(few)
    warn_of_oddities(config, data)
    weights = 0

    def weigh(algorithm: Algorithm) -> None:
        nonlocal weights
        weights = sum(tensor.nbytes for tensor in algorithm.network.state_dict().values())

    own: dict[str, Any] = {"progress": None, "built": weigh if options.get("devices", 1) == 1 else None}
    for steps in (_FEW, _MORE):
        clock = Clock()
        number = min(steps, config.steps)
        short = dataclasses.replace(config, steps=number, record_every=number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the sample, which is smaller than the data
            found = run(short, None, data=sample, **{**options, **own, "clock": clock})
        options["say"] = None  # has been said
        if clock.seconds["steps"] > _QUICK and not cuda:
            break
    values = {record["metric"]: record["value"] or 0.0 for record in found if record["domain"] is None}
    share = sum(len(rows) for splits in data.domains.values() for rows in splits.values()) / max(
        1, sum(len(rows) for splits in few.values() for rows in splits.values())
    )
    record_seconds = share * clock.seconds["evaluation"] / 2
    records = len(range(0, config.steps, config.record_every)) + ((config.steps - 1) % config.record_every > 0)
    step_seconds = values["step_seconds"]
    seconds = clock.seconds["set-up"] + config.steps * step_seconds + records * record_seconds
    memory, splits = values.get("memory_gib", 0.0), sum(len(splits) for splits in data.domains.values())
    return Cost(seconds, step_seconds, record_seconds, records, memory, weights, splits)


def _some(rows: Split, cuda: bool) -> Split:
    in_memory = isinstance(rows.inputs, Tensor)
    if cuda and in_memory:
        return rows
    return rows.rows(torch.arange(min(_ROWS if in_memory else _FILES, len(rows))))
