"""How a run is done, as opposed to what is run: nothing here changes its numbers beyond rounding."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from momentalign._machine import available_cores
from momentalign._validation import check_choice, check_count
from momentalign.algorithms import Algorithm
from momentalign.runs import Record, RunConfig
from momentalign.training._rows import Rows

_SECONDS = 0.1
"""Time between two reports of progress, at least."""

CHECKPOINT_SECONDS = 10.0
"""Age that a checkpoint has when the next is written, at least."""


class Clock:
    """Where the time goes: seconds by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, part: str) -> float:
        """Book the time since the last lap on a part, and return it."""
        now = time.perf_counter()
        spent, self.last = now - self.last, now
        self.seconds[part] = self.seconds.get(part, 0.0) + spent
        return spent


class Progress(NamedTuple):
    """Where a run is.

    Args:
        done: Steps done.
        steps: Steps in all.
        loss: Mean loss at the last record; None before the first.
        accuracy: Mean accuracy at the last record on the held-out rows of the training domains.
        evaluated: While a record is being made, which may take longer than the steps before it: the share of rows
            that have been looked at. None otherwise.
    """

    done: int
    steps: int
    loss: float | None
    accuracy: float | None
    evaluated: float | None = None


@dataclass(frozen=True)
class Options:
    """How a run is done.

    Args:
        root: The data folder.
        save: Whether to write weights: to go on from, and at the end.
        checkpoint_every: Records from one checkpoint to the next; None for one whenever the last is ten seconds old.
        workers: Processes that read rows that are no tensors; None for one a core, eight at most.
        skip_bad_files: Leave unreadable images out.
        capture: Whether steps are a CUDA graph; None for where they can be: a small network and data on one GPU.
        compile: "none"; "penalty" to compile the penalty; "all" to compile the network as well. Compiling takes half
            a minute, once a process: it is for many runs.
        progress: Called now and then.
        say: Called with sentences to show before the first step: what was assumed, where the run goes on, its size.
        clock: Measures set-up, steps, evaluation and files.
        built: Called with the algorithm once it is built, on every rank.
    """

    root: str | Path | None = None
    save: bool = True
    checkpoint_every: int | None = None
    workers: int | None = None
    skip_bad_files: bool = False
    capture: bool | None = None
    compile: str = "none"
    progress: Callable[[Progress], None] | None = None
    say: Callable[[str], None] | None = None
    clock: Clock = field(default_factory=Clock)
    built: Callable[[Algorithm], None] | None = None

    def __post_init__(self) -> None:
        if self.checkpoint_every is not None:
            check_count("checkpoint_every", self.checkpoint_every, 1)
        check_choice("compile", self.compile, ("none", "penalty", "all"))
        if self.workers is not None:
            check_count("workers", self.workers, 0)

    def workers_for(self, rows: Rows, ranks: int) -> int:
        """Processes that read rows for one rank."""
        if rows.on_device:
            return 0
        return min(8, max(1, available_cores() // ranks)) if self.workers is None else self.workers

    def saves(self, config: RunConfig, step: int, age: float) -> bool:
        """Whether the record of a step is followed by a checkpoint; the last one by the finished model instead.

        Args:
            config: The run's.
            step: The step.
            age: Seconds since the last checkpoint, or since the first step.

        Returns:
            Whether it is.
        """
        if not self.save or step == config.steps - 1:
            return False
        if self.checkpoint_every is None:
            return age >= CHECKPOINT_SECONDS
        return (step // config.record_every) % self.checkpoint_every == 0


def went_on(step: int, steps: int) -> list[str]:
    """What to say of a run that was interrupted before."""
    return [f"Going on from step {step} of {steps}."] if step else []


class Reporter:
    """Calls the progress function at every record, and between records not too often.

    Args:
        progress: What to call; None for nothing.
        steps: Steps in all.
    """

    def __init__(self, progress: Callable[[Progress], None] | None, steps: int) -> None:
        self.progress, self.steps = progress, steps
        self.loss: float | None = None
        self.accuracy: float | None = None
        self.last = 0.0

    def step(self, step: int) -> None:
        """A step was done."""
        if self.progress is not None and step < self.steps - 1 and time.monotonic() - self.last > _SECONDS:
            self._call(step)

    def evaluating(self, step: int, share: float = 0.0) -> None:
        """A record of a step is being made.

        Args:
            step: Its step.
            share: Of the rows that have been looked at.
        """
        if self.progress is not None and (not share or time.monotonic() - self.last > _SECONDS):
            self.last = time.monotonic()
            self.progress(Progress(step, self.steps, self.loss, self.accuracy, share))

    def record(self, step: int, records: Sequence[Record], held_out: Sequence[tuple[str, str]]) -> None:
        """A record was made.

        Args:
            step: Its step.
            records: Its numbers.
            held_out: Domain and split of the rows whose accuracy to report.
        """
        if self.progress is None:
            return
        values = {(record["domain"], record["split"], record["metric"]): record["value"] for record in records}
        self.loss = values.get((None, None, "loss"))
        found = [values[*place, "accuracy"] for place in held_out if (*place, "accuracy") in values]
        self.accuracy = sum(value for value in found if value is not None) / len(found) if found else None
        self._call(step)

    def _call(self, step: int) -> None:
        assert self.progress is not None
        self.last = time.monotonic()
        self.progress(Progress(step + 1, self.steps, self.loss, self.accuracy))
