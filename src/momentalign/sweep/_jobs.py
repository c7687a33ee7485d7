"""One run as a job that any process can do, and what comes back of it."""

import shutil
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from momentalign._errors import in_one_line
from momentalign._files import is_disk_full
from momentalign._machine import is_ours
from momentalign.runs import BusyError, RunConfig, RunState, is_busy, record_failure
from momentalign.sweep._measure import Cost, measure
from momentalign.training import run

_READERS = 8  # processes that read images for one run, at most


@dataclass(frozen=True)
class Job:
    """What a process needs to do a run.

    Args:
        config: The run.
        folder: Where it goes, an absolute path.
        domains: Names of the data set's domains.
        root: Data folder.
        accelerator: "cpu" or "cuda".
        keep_weights: Whether the weights stay when the run is finished.
        skip_bad_files: Leave out images that cannot be decoded.
        measure: Find out what the run would take instead of doing it.
    """

    config: RunConfig
    folder: Path
    domains: tuple[str, ...]
    root: str | None = None
    accelerator: str = "cpu"
    keep_weights: bool = True
    skip_bad_files: bool = False
    measure: bool = False

    @property
    def name(self) -> str:
        """The run's hash, which is the folder's name."""
        return self.folder.name


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Args:
        job: The job.
        status: FINISHED, FAILED, BUSY or DISK_FULL.
        error: One line, where there is something to say.
        seconds: Time it took, loading included; for a measurement, what the run would take.
        size: Bytes that its folder would take, of a measurement only.
        archive: The folder as a tar file, where it could not be written in its place.
        notes: What the run had to say on the way, for instance which files it left out.
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
    """A job is under way.

    Args:
        job: The job.
        share: How much of it is done, from 0 to 1.
    """

    job: Job
    share: float


class Engine(ABC):
    """Where jobs are done.

    Attributes:
        accelerator: "cpu" or "cuda", for all its jobs.
    """

    accelerator: str = "cpu"

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many jobs can be under way at once."""

    @property
    @abstractmethod
    def description(self) -> str:
        """One phrase for the plan: where and how many at once."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Begin a job; the caller keeps to the number of slots."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Outcome | Advance]:
        """What happened, waiting for at most so long for something to happen."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything. Runs under way are left as they are and can be gone on with."""


def execute(job: Job, report: Callable[[float], None] | None = None) -> Outcome:
    """Do a run; an error becomes its outcome and is written into its folder.

    Args:
        job: The run.
        report: Called now and then with the share that is done.

    Returns:
        How it ended.
    """
    if job.measure:
        return _measure(job)
    if is_busy(job.folder):
        return Outcome(job, RunState.BUSY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        outcome = _train(job, report)
    ours = [str(note.message) for note in caught if issubclass(note.category, UserWarning) and is_ours(note.filename)]
    return replace(outcome, notes=tuple(dict.fromkeys(ours)))


def _train(job: Job, report: Callable[[float], None] | None) -> Outcome:
    begin = time.monotonic()

    def advance(share: float) -> None:
        if report is not None:
            report(share)

    try:
        if job.config.setting == "probe":
            from momentalign.probing import run_probe

            run_probe(job.config, job.folder, progress=lambda done, steps: advance(done / steps))
        else:
            run(
                job.config,
                job.folder,
                root=job.root,
                accelerator=job.accelerator,
                skip_bad_files=job.skip_bad_files,
                # The engine gave this process its share of the cores; as many may read images.
                workers=min(_READERS, torch.get_num_threads()),
                progress=lambda at: advance(at.done / at.steps),
            )
    except BusyError:
        return Outcome(job, RunState.BUSY)
    except Exception as error:
        message = in_one_line(error)
        if is_disk_full(error):
            return Outcome(job, RunState.DISK_FULL, message, time.monotonic() - begin)
        record_failure(job.folder, job.config, job.domains, error)
        return Outcome(job, RunState.FAILED, message, time.monotonic() - begin)
    if not job.keep_weights:
        shutil.rmtree(job.folder / "checkpoint", ignore_errors=True)
    return Outcome(job, RunState.FINISHED, None, time.monotonic() - begin)


_warm = False


def _measure(job: Job) -> Outcome:
    global _warm
    try:
        if not _warm:
            # A new process imports and loads what later runs find ready.
            _cost(job)
            _warm = True
        cost = _cost(job)
    except Exception as error:
        return Outcome(job, RunState.FAILED, in_one_line(error))
    return Outcome(job, RunState.FINISHED, None, cost.seconds, cost.records + (cost.weights if job.keep_weights else 0))


def _cost(job: Job) -> Cost:
    return measure(job.config, root=job.root, accelerator=job.accelerator, skip_bad_files=job.skip_bad_files)
