"""Cost of a sweep, measured on a few steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from momentalign._format import format_duration, format_size
from momentalign.runs import RunConfig, RunState
from momentalign.sweep._jobs import Engine, Job, Outcome
from momentalign.sweep._plan import Plan


@dataclass(frozen=True)
class SweepEstimate:
    """Time and disk space of a sweep.

    Args:
        seconds: From the first run to the last.
        size: Bytes on disk at the end.
        errors: Of failed measurements, by algorithm and data set.
    """

    seconds: float
    size: float
    errors: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"about {format_duration(self.seconds)} and {format_size(self.size)} of disk"


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
    progress: Callable[[int, int], None] | None = None,
) -> SweepEstimate:
    """Measure a few steps of every algorithm on every data set, one at a time on each GPU; nothing is written.

    Runs that share a GPU are counted one after another: each becomes slower as if they took turns.

    Args:
        runs: The remaining runs of the plan.
        engine: Engine that will execute them.
        out: Parent of the runs' folders.
        root: Data folder.
        finals: Number of later runs that cost as much as the others.
        keep_weights: Whether finished runs keep their weights.
        skip_bad_files: Skip images that cannot be decoded.
        train_accuracy: Whether records have the accuracy on the rows that are trained on.
        progress: Called with the number of finished measurements and their total.
    """
    kinds: dict[tuple[str, str], RunConfig] = {}
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
        )
        for index, config in enumerate(kinds.values())
    ]
    outcomes = dict(zip(kinds, _execute_all(engine, jobs, progress), strict=True))
    costs = {kind: outcome for kind, outcome in outcomes.items() if outcome.status is RunState.FINISHED}
    errors = {f"{kind[1]} on {kind[0]}": outcome.error or "" for kind, outcome in outcomes.items() if kind not in costs}
    known = [costs[config.dataset, config.algorithm] for config in runs if (config.dataset, config.algorithm) in costs]
    factor = 1 + finals / len(runs) if runs else 1.0
    seconds = sum(outcome.seconds for outcome in known) / min(engine.parallel, max(1, len(runs)))
    size = sum(outcome.size for outcome in known)
    return SweepEstimate(factor * seconds, factor * size, errors)


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
