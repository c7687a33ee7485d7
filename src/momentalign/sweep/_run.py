"""Working through a plan."""

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from momentalign._files import DiskFullError
from momentalign.runs import Claims, RunConfig, RunState, remove_planned, run_state, write_planned
from momentalign.sweep._archive import unpack
from momentalign.sweep._jobs import Advance, Engine, Job, Outcome
from momentalign.sweep._plan import Plan
from momentalign.sweep._remaining import final_runs, is_left, stamps_of

_WAIT = 0.2
_LOOK_AGAIN = 2.0  # seconds from one look at runs of other sweeps to the next


@dataclass
class Tally:
    """How a sweep went.

    Args:
        finished: Runs that this sweep finished.
        before: Runs that were finished already, or by another sweep meanwhile.
        failed: Errors of the runs that failed, now or before, by name.
        seconds: Time that the finished runs took, all together.
        notes: What runs had to say, each sentence once: which files they left out, for instance.
    """

    finished: int = 0
    before: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


Event = Outcome | Advance
Watch = Callable[[Tally, Event | None], None]


def run_sweep(
    plan: Plan,
    out: str | Path,
    engine: Engine,
    *,
    root: str | Path | None = None,
    retry_failed: bool = False,
    keep_weights: bool = True,
    skip_bad_files: bool = False,
    watch: Watch | None = None,
) -> Tally:
    """Do all runs of a plan that are not done yet.

    Finished runs are left alone, half-finished ones and those that a full disk ended gone on with, and failed ones only
    tried again if told to. A run that another sweep does at the moment is waited for. A run that fails stops nothing.

    Args:
        plan: What to run.
        out: Parent of the runs' folders.
        engine: Where to run; it is left open.
        root: Data folder.
        retry_failed: Start failed runs again.
        keep_weights: Whether finished runs keep their weights.
        skip_bad_files: Leave out images that cannot be decoded; `Tally.notes` says which.
        watch: Called whenever something happens.

    Returns:
        How it went.

    Raises:
        DiskFullError: There is no room left. What was done stays, and the same call goes on.
    """
    out = Path(out).absolute()
    out.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"root": None if root is None else str(root), "accelerator": engine.accelerator}
    options |= {"keep_weights": keep_weights, "skip_bad_files": skip_bad_files}
    driver = _Driver(plan, out, engine, options, retry_failed, watch)
    listed = write_planned(out, ((run.hash(), run.to_dict(), plan.domains[run.dataset]) for run in plan.runs))
    done = False
    try:
        driver.work(plan.runs)
        driver.work(final_runs(plan, out))
        done = True
    finally:
        driver.claims.release_all()
        remove_planned(listed, done=done)
    return driver.tally


class _Driver:
    def __init__(
        self,
        plan: Plan,
        out: Path,
        engine: Engine,
        options: dict[str, Any],
        retry_failed: bool,
        watch: Watch | None,
    ) -> None:
        self.plan, self.out, self.engine, self.options = plan, out, engine, options
        self.retry_failed = retry_failed
        self.watch = watch or (lambda tally, event: None)
        self.claims = Claims(out)
        self.stamps = stamps_of(plan)
        self.tally = Tally()
        self.tried: set[str] = set()

    def work(self, configs: Iterable[RunConfig]) -> None:
        waiting = deque(self._job(config) for config in configs)
        elsewhere: deque[Job] = deque()
        looked = time.monotonic()
        active = 0
        while waiting or active or elsewhere:
            while waiting and active < self.engine.slots:
                job = waiting.popleft()
                begun = self._begin(job)
                active += begun is True
                if begun is None:
                    elsewhere.append(job)
            if elsewhere and time.monotonic() - looked > _LOOK_AGAIN:
                waiting.extend(elsewhere)
                elsewhere.clear()
                looked = time.monotonic()
            for event in self.engine.wait(_WAIT) if active or elsewhere else ():
                if isinstance(event, Outcome):
                    active -= 1
                    if event.status is RunState.BUSY:
                        elsewhere.append(event.job)
                    self._end(event)
                self.watch(self.tally, event)
            self.watch(self.tally, None)

    def _job(self, config: RunConfig) -> Job:
        folder = self.out / config.hash()
        return Job(config, folder, self.plan.domains[config.dataset], **self.options)

    def _begin(self, job: Job) -> bool | None:
        """Begin a run; False if there is nothing to do, None if another sweep has it."""
        if not self.claims.acquire(job.name):
            return None
        # Looked at under the lock: another sweep may have done it a moment ago.
        status, error = run_state(job.folder, job.config, self.stamps[job.config.dataset])
        if is_left(status, self.retry_failed and job.name not in self.tried):
            if status is RunState.DAMAGED:
                shutil.rmtree(job.folder)
            self.tried.add(job.name)
            self.engine.submit(job)
            return True
        self.claims.release(job.name, finished=status is RunState.FINISHED)
        if status is RunState.FINISHED:
            self.tally.before += 1
        else:
            self.tally.failed[job.name] = error or "no reason given"
        return False

    def _end(self, outcome: Outcome) -> None:
        name = outcome.job.name
        if outcome.archive is not None:
            unpack(outcome.archive, outcome.job.folder)
        self.claims.release(name, finished=outcome.status is RunState.FINISHED)
        self.tally.notes += [note for note in outcome.notes if note not in self.tally.notes]
        if outcome.status is RunState.FINISHED:
            self.tally.finished += 1
            self.tally.seconds += outcome.seconds
        elif outcome.status is RunState.FAILED:
            self.tally.failed[name] = outcome.error or "no reason given"
        elif outcome.status is RunState.DISK_FULL:
            raise DiskFullError(f"No space left for {self.out}. Make room and run the same command again: it goes on.")
