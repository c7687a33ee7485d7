"""Execution of a plan: which runs remain, and the loop that hands them to an engine."""

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from momentalign._files import DiskFullError
from momentalign.runs import (
    Claims,
    RunConfig,
    RunState,
    data_stamp,
    read_runs,
    remove_planned,
    run_state,
    write_planned,
)
from momentalign.sweep._jobs import Advance, Engine, Job, Outcome
from momentalign.sweep._plan import Plan, most_finals

_WAIT_SECONDS = 0.2
_RECHECK_SECONDS = 2.0  # between checks of runs that other sweeps hold


class Remaining(NamedTuple):
    """Remaining runs of a plan.

    Args:
        runs: Runs to start or resume: first trials, and final runs whose first trials are all done.
        finals: Most final runs that may follow from undecided first trials.
        changed: Existing runs on data that have changed since.
    """

    runs: tuple[RunConfig, ...]
    finals: int
    changed: tuple[RunConfig, ...] = ()


def remaining(plan: Plan, out: str | Path, *, retry_failed: bool = False) -> Remaining:
    """Find the remaining runs of a plan, and count those that may follow.

    Args:
        out: Parent of the runs' folders, which may not exist.
        retry_failed: Include failed runs.
    """
    folder, stamps = Path(out), _data_stamps(plan)

    def state(config: RunConfig) -> RunState:
        return run_state(folder / config.hash(), config, stamps[config.dataset])[0]

    def left(configs: Iterable[RunConfig]) -> list[RunConfig]:
        return [config for config in configs if _is_left(state(config), retry_failed)]

    first, final = left(plan.runs), left(_final_runs(plan, folder))
    undecided = {(config.dataset, config.algorithm) for config in first}
    decided = [config for config in final if (config.dataset, config.algorithm) not in undecided]
    to_come = {key: len(left(runs)) for key, runs in plan.finals.items() if key[:2] in undecided}
    changed = tuple(config for config in plan.runs if state(config) is RunState.CHANGED)
    return Remaining((*first, *decided), most_finals(to_come, len(plan.group_rules)), changed)


@dataclass
class Tally:
    """Result of a sweep.

    Args:
        finished: Number of runs that this sweep finished.
        before: Number of runs finished before, or by another sweep meanwhile.
        failed: Errors of failed runs, now or before, by name.
        notes: Distinct warnings of the runs, for instance on skipped files.
    """

    finished: int = 0
    before: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


SweepProgress = Callable[[Tally, Outcome | Advance | None], None]


def run_sweep(
    plan: Plan,
    out: str | Path,
    engine: Engine,
    *,
    retry_failed: bool = False,
    progress: SweepProgress = lambda tally, event: None,
    **options: Any,
) -> Tally:
    """Execute the remaining runs of a plan.

    Finished runs are kept; unfinished ones, and those stopped by a full disk, are resumed; failed ones are repeated
    only with `retry_failed`. Runs that another sweep holds are waited for. A failed run does not stop the others.

    Args:
        out: Parent of the runs' folders.
        engine: Executes the runs; it is left open.
        retry_failed: Repeat failed runs.
        progress: Called after every event.
        **options: Of :class:`Job`: root, keep_weights, skip_bad_files, train_accuracy.

    Raises:
        DiskFullError: The disk is full. Finished work is kept; the same call resumes.
    """
    out = Path(out).absolute()
    out.mkdir(parents=True, exist_ok=True)
    driver = _Driver(plan, out, engine, options, retry_failed, progress)
    planned = write_planned(out, ((run.hash(), run.to_dict(), plan.domains[run.dataset]) for run in plan.runs))
    done = False
    try:
        driver.execute(plan.runs)
        driver.execute(_final_runs(plan, out))
        done = True
    finally:
        driver.claims.release_all()
        remove_planned(planned, done=done)
    return driver.tally


class _Driver:
    def __init__(
        self,
        plan: Plan,
        out: Path,
        engine: Engine,
        options: Mapping[str, Any],
        retry_failed: bool,
        progress: SweepProgress,
    ) -> None:
        self.plan, self.out, self.engine, self.options = plan, out, engine, options
        self.retry_failed, self.progress = retry_failed, progress
        self.claims, self.stamps, self.tally = Claims(out), _data_stamps(plan), Tally()

    def execute(self, configs: Iterable[RunConfig]) -> None:
        waiting = deque(self._job(config) for config in configs)
        elsewhere: deque[Job] = deque()  # held by other sweeps
        checked = time.monotonic()
        active = 0
        while waiting or active or elsewhere:
            while waiting and active < self.engine.slots:
                job = waiting.popleft()
                started = self._start(job)
                active += started is True
                if started is None:
                    elsewhere.append(job)
            if elsewhere and time.monotonic() - checked > _RECHECK_SECONDS:
                waiting.extend(elsewhere)
                elsewhere.clear()
                checked = time.monotonic()
            if elsewhere and not active:
                time.sleep(_WAIT_SECONDS)
            for event in self.engine.wait(_WAIT_SECONDS) if active else ():
                if isinstance(event, Outcome):
                    active -= 1
                    if event.status is RunState.BUSY:
                        elsewhere.append(event.job)
                    self._finish(event)
                self.progress(self.tally, event)
            self.progress(self.tally, None)

    def _job(self, config: RunConfig) -> Job:
        folder, domains = self.out / config.hash(), self.plan.domains[config.dataset]
        return Job(config, folder, domains, self.engine.accelerator, **self.options)

    def _start(self, job: Job) -> bool | None:
        """Start a run; False if there is nothing to do, None if another sweep holds it."""
        if not self.claims.acquire(job.name):
            return None
        # Under the lock: another sweep may be replacing the folder, or may have just finished the run.
        status, error = run_state(job.folder, job.config, self.stamps[job.config.dataset])
        if _is_left(status, self.retry_failed):
            if status is RunState.DAMAGED:
                shutil.rmtree(job.folder)
            self.engine.submit(job)
            return True
        self.claims.release(job.name, finished=status is RunState.FINISHED)
        if status is RunState.FINISHED:
            self.tally.before += 1
        else:
            self.tally.failed[job.name] = error or "no reason given"
        return False

    def _finish(self, outcome: Outcome) -> None:
        name = outcome.job.name
        self.claims.release(name, finished=outcome.status is RunState.FINISHED)
        self.tally.notes += [note for note in outcome.notes if note not in self.tally.notes]
        if outcome.status is RunState.FINISHED:
            self.tally.finished += 1
        elif outcome.status is RunState.FAILED:
            self.tally.failed[name] = outcome.error or "no reason given"
        elif outcome.status is RunState.DISK_FULL:
            raise DiskFullError(
                f"No space left for {self.out}. Free some space and run the same command again to resume."
            )


def _data_stamps(plan: Plan) -> dict[str, str | None]:
    """Stamp of each data set that is a path; None for named ones."""
    return {dataset: data_stamp(dataset) for dataset in plan.domains}


def _final_runs(plan: Plan, out: Path) -> tuple[RunConfig, ...]:
    """Final runs that follow from the first trials done so far, finished ones included."""
    if not plan.finals:
        return ()
    try:
        sweep = read_runs(out)
    except ValueError:  # no folder, or no readable run in it
        return ()
    return plan.final_runs(sweep)


def _is_left(status: RunState, retry_failed: bool) -> bool:
    left = status in (RunState.NEW, RunState.RUNNING, RunState.DISK_FULL)
    return left or (retry_failed and status in (RunState.FAILED, RunState.DAMAGED))
