"""Jobs that any process can execute, one run each, and the interface of the engines."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from momentalign._errors import describe_error
from momentalign._files import is_disk_full
from momentalign._machine import is_ours
from momentalign.algorithms import PLAIN_MODELS
from momentalign.runs import BusyError, RunConfig, RunState, is_busy, record_failure
from momentalign.training import run, run_plain

RETRIES = 3
"""How often a run is resumed whose process was lost."""
_MOST_READERS = 8  # processes that read images for one run
_FIRST_STEPS = 20  # after which the time of a step is known


@dataclass(frozen=True)
class Job:
    """One run for a worker.

    Args:
        config: The run.
        folder: Its absolute path.
        domains: Names of the data set's domains.
        accelerator: "cpu" or "cuda".
        root: Data folder.
        keep_weights: Whether the finished run keeps its weights.
        skip_bad_files: Skip images that cannot be decoded.
        train_accuracy: Whether records have the accuracy on the rows that are trained on.
    """

    config: RunConfig
    folder: Path
    domains: tuple[str, ...]
    accelerator: str = "cpu"
    root: str | Path | None = None
    keep_weights: bool = True
    skip_bad_files: bool = False
    train_accuracy: bool = True

    @property
    def name(self) -> str:
        """The run's hash, which is its folder's name."""
        return self.folder.name

    def lost(self, reason: str) -> "Outcome":
        """Record the failure of a run that lost its process too often."""
        record_failure(self.folder, self.config, self.domains, reason)
        return Outcome(self, RunState.FAILED, reason)


class Outcome(NamedTuple):
    """Result of a job: FINISHED, FAILED, BUSY or DISK_FULL, with an error in one line.

    `notes` are warnings of the run, for instance on skipped files.
    """

    job: Job
    status: RunState
    error: str | None = None
    notes: tuple[str, ...] = ()


class Advance(NamedTuple):
    """Progress of a job; `share` is in 0 to 1."""

    job: Job
    share: float


class Engine(ABC):
    """Executes jobs, all of them on one kind of `accelerator`: "cpu" or "cuda".

    A run whose process is lost is resumed elsewhere, up to three times. Workers end when the engine is closed and when
    its process dies, however it dies.
    """

    accelerator: str = "cpu"

    @property
    @abstractmethod
    def slots(self) -> int:
        """Number of jobs that run at once."""

    @property
    @abstractmethod
    def description(self) -> str:
        """One phrase for the plan: where, and how many at once."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Start a job; the caller respects the number of slots."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Outcome | Advance]:
        """Events since the last call, waiting at most so long for an outcome; there is a job."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything; unfinished runs can be resumed."""


def execute(job: Job, progress: Callable[[float], None] = lambda share: None) -> Outcome:
    """Train a run; an error becomes its outcome and is recorded in its folder."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        status, error = _try(job, progress)
    ours = [str(note.message) for note in caught if issubclass(note.category, UserWarning) and is_ours(note.filename)]
    return Outcome(job, status, error, tuple(dict.fromkeys(ours)))


def _try(job: Job, progress: Callable[[float], None]) -> tuple[RunState, str | None]:
    if is_busy(job.folder):
        return RunState.BUSY, None
    try:
        _run(job, progress)
    except BusyError:
        return RunState.BUSY, None
    except (Exception, SystemExit) as error:
        if is_disk_full(error):
            return RunState.DISK_FULL, describe_error(error)
        record_failure(job.folder, job.config, job.domains, describe_error(error))
        return RunState.FAILED, describe_error(error)
    return RunState.FINISHED, None


def _run(job: Job, progress: Callable[[float], None]) -> None:
    def report(done: int, steps: int) -> None:
        if done == 1 or done >= _FIRST_STEPS:
            progress(done / steps)

    if job.config.setting == "probe":
        from momentalign.probing import run_probe

        run_probe(job.config, job.folder, progress=report, save=job.keep_weights)
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
            progress=lambda at: report(at.done, at.steps),
        )
