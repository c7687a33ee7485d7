"""Jobs that any process can execute: one run each, trained or measured, and the engine interface."""

import dataclasses
import io
import tarfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from momentalign._errors import describe_error
from momentalign._files import atomic_folder, is_disk_full
from momentalign._machine import is_ours
from momentalign.algorithms import PLAIN_MODELS
from momentalign.runs import BusyError, RunConfig, RunState, is_busy, record_failure
from momentalign.training import estimate_run, run, run_plain

_MOST_READERS = 8  # processes that read images for one run
_LINE_BYTES = 100  # of records.jsonl
_STEP_LINES = 12  # lines of a record that belong to no domain


@dataclass(frozen=True)
class Job:
    """One run for a worker.

    Args:
        config: The run.
        folder: Its absolute path.
        domains: Names of the data set's domains.
        root: Data folder.
        accelerator: "cpu" or "cuda".
        keep_weights: Whether the finished run keeps its weights.
        skip_bad_files: Skip images that cannot be decoded.
        train_accuracy: Whether records have the accuracy on the rows that are trained on.
        measure: Measure the cost of the run instead of training it.
        brief: Measure it in a few seconds, roughly.
    """

    config: RunConfig
    folder: Path
    domains: tuple[str, ...]
    root: str | Path | None = None
    accelerator: str = "cpu"
    keep_weights: bool = True
    skip_bad_files: bool = False
    train_accuracy: bool = True
    measure: bool = False
    brief: bool = False

    @property
    def name(self) -> str:
        """The run's hash, which is its folder's name."""
        return self.folder.name


@dataclass(frozen=True)
class Outcome:
    """Result of a job.

    Args:
        job: The job.
        status: FINISHED, FAILED, BUSY or DISK_FULL.
        error: One line, or None.
        seconds: Duration with loading; of a measurement, the estimated duration of the run.
        size: Bytes of the run's folder, of a measurement only.
        archive: The folder as a tar file if the worker could not write it in place.
        notes: Warnings of the run, for instance on skipped files.
    """

    job: Job
    status: RunState
    error: str | None = None
    seconds: float = 0.0
    size: int = 0
    archive: bytes | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advance:
    """Progress of a job; `share` is in 0 to 1."""

    job: Job
    share: float


class Engine(ABC):
    """Executes jobs; all of them on one kind of `accelerator`, "cpu" or "cuda", with so many `threads` each."""

    accelerator: str = "cpu"
    threads: int = 1

    @property
    @abstractmethod
    def slots(self) -> int:
        """Number of jobs that run at once."""

    @property
    def per_gpu(self) -> int:
        """Most jobs that share a GPU; 1 without GPUs."""
        return 1

    @property
    def parallel(self) -> int:
        """Number of jobs that run at once without sharing a GPU."""
        return -(-self.slots // self.per_gpu)

    @property
    @abstractmethod
    def description(self) -> str:
        """One phrase for the plan: where, and how many at once."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Start a job; the caller respects the number of slots."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Outcome | Advance]:
        """Events since the last call, waiting at most so long for the first."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything; unfinished runs can be resumed."""


def execute(job: Job, progress: Callable[[float], None] | None = None) -> Outcome:
    """Train or measure a run; an error becomes its outcome and is recorded in its folder."""
    if job.measure:
        return _measure(job)
    if is_busy(job.folder):
        return Outcome(job, RunState.BUSY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        outcome = _train(job, progress or (lambda share: None))
    ours = [str(note.message) for note in caught if issubclass(note.category, UserWarning) and is_ours(note.filename)]
    return dataclasses.replace(outcome, notes=tuple(dict.fromkeys(ours)))


def _train(job: Job, progress: Callable[[float], None]) -> Outcome:
    begin = time.monotonic()
    try:
        if job.config.setting == "probe":
            from momentalign.probing import run_probe

            run_probe(
                job.config,
                job.folder,
                progress=lambda done, steps: progress(done / steps),
                save=job.keep_weights,
            )
        elif job.config.algorithm in PLAIN_MODELS:
            run_plain(job.config, job.folder, root=job.root, train_accuracy=job.train_accuracy)
        else:
            run(
                job.config,
                job.folder,
                root=job.root,
                accelerator=job.accelerator,
                skip_bad_files=job.skip_bad_files,
                train_accuracy=job.train_accuracy,
                save=job.keep_weights,
                # As many readers as the engine gave this process cores.
                workers=min(_MOST_READERS, torch.get_num_threads()),
                progress=lambda at: progress(at.done / at.steps),
            )
    except BusyError:
        return Outcome(job, RunState.BUSY)
    except Exception as error:
        message = describe_error(error)
        if is_disk_full(error):
            return Outcome(job, RunState.DISK_FULL, message, time.monotonic() - begin)
        record_failure(job.folder, job.config, job.domains, error)
        return Outcome(job, RunState.FAILED, message, time.monotonic() - begin)
    return Outcome(job, RunState.FINISHED, None, time.monotonic() - begin)


class MeasuredCost(NamedTuple):
    """Seconds of a run, and bytes of its records and weights."""

    seconds: float
    records: int
    weights: int


_warm = False


def _measure(job: Job) -> Outcome:
    global _warm
    try:
        if not _warm and not job.brief:  # imports and caches of a new process
            measure_run(job)
            _warm = True
        cost = measure_run(job)
    except Exception as error:
        return Outcome(job, RunState.FAILED, describe_error(error))
    return Outcome(job, RunState.FINISHED, None, cost.seconds, cost.records + cost.weights * job.keep_weights)


def measure_run(job: Job) -> MeasuredCost:
    """Cost of a run from a few steps; of probes and plain models, from fits or an epoch of SGD. Nothing is written."""
    config = job.config
    if config.algorithm in PLAIN_MODELS:
        few, fits = dict(config.hparams), 1.0
        if "Cs" in few:  # one value of C in two folds, and the final fit
            fits = (few["Cs"] * few["cv"] + 1) / 3
            few |= {"Cs": [1.0], "cv": 2}
        begin = time.monotonic()
        config = dataclasses.replace(config, hparams=few)
        records = run_plain(config, None, root=job.root, train_accuracy=job.train_accuracy)
        return MeasuredCost(fits * (time.monotonic() - begin), len(records) * _LINE_BYTES, 0)
    if config.setting != "probe":
        cost = estimate_run(
            config,
            root=job.root,
            accelerator=job.accelerator,
            skip_bad_files=job.skip_bad_files,
            train_accuracy=job.train_accuracy,
            brief=job.brief,
        )
        metrics = 2 if config.average == "none" else 4  # of each split: accuracy and loss, of raw and averaged weights
        lines = cost.records * (_STEP_LINES + metrics * cost.splits)
        return MeasuredCost(cost.seconds, lines * _LINE_BYTES, cost.weights)
    from momentalign.probing import run_probe

    epochs = config.hparams.get("epochs", 1)
    if epochs > 1:
        hparams = {**config.hparams, "epochs": 1}
        config = dataclasses.replace(config, hparams=hparams, steps=-(-config.steps // epochs))
    begin = time.monotonic()
    last = run_probe(config, None)
    seconds = epochs * (time.monotonic() - begin)
    records = epochs * (last[0]["step"] // config.record_every + 1)
    return MeasuredCost(seconds, records * len(last) * _LINE_BYTES, 0)


def pack_folder(folder: Path) -> bytes:
    """A folder as a tar file, for machines without a shared disk."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(folder, arcname=".")
    return content.getvalue()


def unpack_folder(content: bytes, folder: Path) -> None:
    """Replace a folder by the files of a tar file, atomically."""
    with atomic_folder(folder) as new, tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(new, filter="data")
