"""Options of how a run is executed, which change its numbers by rounding at most."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from momentalign._machine import available_cores
from momentalign._validation import check_choice, check_count
from momentalign.algorithms import Algorithm
from momentalign.runs import Record, RunConfig
from momentalign.training._accuracy_records import values_by_key
from momentalign.training._data import DatasetRows
from momentalign.training._loggers import check_loggers

_REPORT_SECONDS = 0.1
"""Least time between two progress reports."""

CHECKPOINT_SECONDS = 10.0
"""Age of a checkpoint at which the next is written."""


class Clock:
    """Seconds by part of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, part: str) -> float:
        """Add the time since the last lap to a part, and return it."""
        now = time.perf_counter()
        spent, self.last = now - self.last, now
        self.seconds[part] = self.seconds.get(part, 0.0) + spent
        return spent


class Progress(NamedTuple):
    """Progress of a run.

    Args:
        done: Steps done.
        steps: Steps in all.
        loss: Mean loss at the last record; None before the first.
        accuracy: Mean accuracy at the last record on the held-out rows of the training domains.
        evaluated: During an evaluation, which may take longer than the steps before it: the share of rows that are
            done. None otherwise.
    """

    done: int
    steps: int
    loss: float | None
    accuracy: float | None
    evaluated: float | None = None


@dataclass(frozen=True)
class RunOptions:
    """How a run is executed.

    Args:
        devices: Number of processes, one device each; every mini-batch is shared by them.
        accelerator: "cpu", "cuda", or "auto" for CUDA where there is one.
        root: The data folder.
        save: Whether a finished run keeps its weights.
        train_accuracy: Whether records have the accuracy on training rows, which only "train-groups" selection uses.
        checkpoint_every: Records from one checkpoint to the next; None for one whenever the last is ten seconds old.
        workers: Processes that read rows that are not tensors; None for one per core, at most eight.
        skip_bad_files: Skip unreadable images.
        capture: Whether steps are a CUDA graph; None for where they can be, on one GPU.
        compile: "none"; "penalty" to compile the penalty; "all" to compile the network as well. Compiling takes half
            a minute per process, which pays off over many runs.
        progress: Called at every record, and up to ten times per second in between.
        log: Called with messages before the first step: assumptions, where the run resumes, its size.
        loggers: Where records go besides the folder: "csv", "tensorboard", "mlflow", "wandb", by Lightning's loggers.
        clock: Measures set-up, steps, evaluation and files.
        built: Called with the algorithm once it is built, on every rank.
    """

    devices: int = 1
    accelerator: str = "auto"
    root: str | Path | None = None
    save: bool = True
    train_accuracy: bool = True
    checkpoint_every: int | None = None
    workers: int | None = None
    skip_bad_files: bool = False
    capture: bool | None = None
    compile: str = "none"
    progress: Callable[[Progress], None] | None = None
    log: Callable[[str], None] | None = None
    loggers: Sequence[str] = ()
    clock: Clock = field(default_factory=Clock)
    built: Callable[[Algorithm], None] | None = None

    def __post_init__(self) -> None:
        check_count("devices", self.devices, 1)
        if self.checkpoint_every is not None:
            check_count("checkpoint_every", self.checkpoint_every, 1)
        check_loggers(self.loggers)
        check_choice("compile", self.compile, ("none", "penalty", "all"))
        if self.workers is not None:
            check_count("workers", self.workers, 0)

    def workers_for(self, rows: DatasetRows, ranks: int) -> int:
        """Processes that read rows for one rank."""
        if rows.on_device:
            return 0
        return min(8, max(1, available_cores() // ranks)) if self.workers is None else self.workers

    def saves(self, config: RunConfig, step: int, age: float) -> bool:
        """Whether to write a checkpoint after the record of a step; `age` of the last one in seconds."""
        if step == config.steps - 1:  # the finished model follows
            return False
        if self.checkpoint_every is None:
            return age >= CHECKPOINT_SECONDS
        return (step // config.record_every) % self.checkpoint_every == 0


class Reporter:
    """Calls the progress function, if any, at every record, and between records not too often."""

    def __init__(self, progress: Callable[[Progress], None] | None, steps: int) -> None:
        self.progress, self.steps = progress, steps
        self.loss: float | None = None
        self.accuracy: float | None = None
        self.last = 0.0

    def step(self, step: int) -> None:
        """Report a step, which is done."""
        if self.progress is not None and step < self.steps - 1 and time.monotonic() - self.last > _REPORT_SECONDS:
            self._call(step + 1)

    def evaluation(self, step: int, share: float = 0.0) -> None:
        """Report the share of rows that are evaluated for a record."""
        if self.progress is not None and (not share or time.monotonic() - self.last > _REPORT_SECONDS):
            self._call(step, share)

    def record(self, step: int, records: Sequence[Record], held_out: Sequence[tuple[str, str]]) -> None:
        """Report a record; `held_out` names domain and split of the rows whose accuracy is shown."""
        if self.progress is None:
            return
        values = values_by_key(records)
        self.loss = values.get((None, None, "loss"))
        shown = [values[*rows, "accuracy"] for rows in held_out if (*rows, "accuracy") in values]
        self.accuracy = sum(value for value in shown if value is not None) / len(shown) if shown else None
        self._call(step + 1)

    def _call(self, done: int, evaluated: float | None = None) -> None:
        assert self.progress is not None
        self.last = time.monotonic()
        self.progress(Progress(done, self.steps, self.loss, self.accuracy, evaluated))
