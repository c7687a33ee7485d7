"""Cost of a sweep, measured on a few steps."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import fmean

import torch

from momentalign._format import format_duration, format_size
from momentalign.runs import RunConfig, RunState
from momentalign.sweep._jobs import Engine, Job, Outcome, execute
from momentalign.sweep._plan import Plan

_Kind = tuple[str, str]
"""Data set and algorithm."""
_BRIEF_SECONDS = 6.0
"""After which a brief estimate measures nothing more."""


@dataclass(frozen=True)
class SweepEstimate:
    """Time and disk space of a sweep.

    Args:
        seconds: From the first run to the last.
        size: Bytes on disk at the end.
        errors: Of failed measurements, by algorithm and data set.
        measured: Of a brief estimate, how many pairs of algorithm and data set were measured, and how many there are.
    """

    seconds: float
    size: float
    errors: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[int, int] | None = None

    def __str__(self) -> str:
        cost = f"about {format_duration(self.seconds)} and {format_size(self.size)} of disk"
        if self.measured is None:
            return cost
        return "{}, within a factor of three or so, from short steps of {} of {} methods".format(cost, *self.measured)


def estimate_sweep(
    plan: Plan,
    runs: Sequence[RunConfig],
    engine: Engine,
    out: Path,
    *,
    root: str | Path | None = None,
    finals: int = 0,
    keep_weights: bool = True,
    skip_bad_files: bool = False,
    train_accuracy: bool = True,
    brief: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SweepEstimate:
    """Measure a few steps of every algorithm on every data set, one at a time on each GPU; nothing is written.

    Runs that share a GPU are counted one after another: each becomes slower as if they took turns. A brief estimate
    measures short steps in this process, of one algorithm on each data set first, and stops after a few seconds; what
    was not measured counts as the mean of the same data set, or of all.

    Args:
        runs: The remaining runs of the plan.
        engine: Engine that will execute them.
        out: Parent of the runs' folders.
        root: Data folder.
        finals: Number of later runs that cost as much as the others.
        keep_weights: Whether finished runs keep their weights.
        skip_bad_files: Skip images that cannot be decoded.
        train_accuracy: Whether records have the accuracy on the rows that are trained on.
        brief: Answer in about ten seconds, roughly, instead of minutes.
        progress: Called with the number of finished measurements and their total.
    """
    kinds: dict[_Kind, RunConfig] = {}
    for config in runs:
        kinds.setdefault((config.dataset, config.algorithm), config)
    jobs = [
        Job(
            config,
            out / f"measure-{index}",
            plan.domains[config.dataset],
            root,
            engine.accelerator,
            keep_weights,
            skip_bad_files,
            train_accuracy,
            measure=True,
            brief=brief,
        )
        for index, config in enumerate(kinds.values())
    ]
    done = _execute_some(engine, jobs, progress) if brief else _execute_all(engine, jobs, progress)
    outcomes = {(outcome.job.config.dataset, outcome.job.config.algorithm): outcome for outcome in done}
    costs = {kind: outcome for kind, outcome in outcomes.items() if outcome.status is RunState.FINISHED}
    errors = {f"{kind[1]} on {kind[0]}": outcome.error or "" for kind, outcome in outcomes.items() if kind not in costs}
    number = Counter((config.dataset, config.algorithm) for config in runs)
    known = {kind: _cost(kind, costs) for kind in number if kind in costs or (kind not in outcomes and costs)}
    factor = 1 + finals / len(runs) if runs else 1.0
    seconds = sum(number[kind] * cost[0] for kind, cost in known.items()) / min(engine.parallel, max(1, len(runs)))
    size = sum(number[kind] * cost[1] for kind, cost in known.items())
    return SweepEstimate(factor * seconds, factor * size, errors, (len(costs), len(kinds)) if brief else None)


def _cost(kind: _Kind, measured: Mapping[_Kind, Outcome]) -> tuple[float, float]:
    """Seconds and bytes of a run: measured, or the mean of what was measured on the same data set, or at all."""
    if kind in measured:
        return measured[kind].seconds, measured[kind].size
    like = [outcome for other, outcome in measured.items() if other[0] == kind[0]] or list(measured.values())
    return fmean(outcome.seconds for outcome in like), fmean(outcome.size for outcome in like)


def _execute_some(engine: Engine, jobs: Sequence[Job], progress: Callable[[int, int], None] | None) -> list[Outcome]:
    """Execute jobs in this process, where no other one has to start, until the time is over; data sets take turns."""
    datasets = [job.config.dataset for job in jobs]
    turns = [datasets[:index].count(dataset) for index, dataset in enumerate(datasets)]
    threads, outcomes, begin = torch.get_num_threads(), list[Outcome](), time.monotonic()
    torch.set_num_threads(engine.threads)
    try:
        for _, job in sorted(zip(turns, jobs, strict=True), key=itemgetter(0)):
            outcomes.append(execute(job))
            if progress is not None:
                progress(len(outcomes), len(jobs))
            measured = any(outcome.status is RunState.FINISHED for outcome in outcomes)
            if measured and time.monotonic() - begin > _BRIEF_SECONDS:
                break
    finally:
        torch.set_num_threads(threads)
    return outcomes


def _execute_all(engine: Engine, jobs: Sequence[Job], progress: Callable[[int, int], None] | None) -> list[Outcome]:
    waiting, active = list(reversed(jobs)), 0
    outcomes: dict[Path, Outcome] = {}
    while len(outcomes) < len(jobs):
        while waiting and active < engine.parallel:
            engine.submit(waiting.pop())
            active += 1
        for event in engine.wait(0.2):
            if isinstance(event, Outcome):
                outcomes[event.job.folder] = event
                active -= 1
                if progress is not None:
                    progress(len(outcomes), len(jobs))
    return [outcomes[job.folder] for job in jobs]
