"""What a sweep will cost, measured on a few steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from momentalign._format import format_duration, format_size
from momentalign.runs import RunConfig, RunState
from momentalign.sweep._jobs import Engine, Job, Outcome
from momentalign.sweep._plan import Plan


@dataclass(frozen=True)
class Estimate:
    """Time and space.

    Args:
        seconds: From the first run to the last.
        size: Bytes on disk when all is done.
        errors: What went wrong while measuring, by algorithm and data set.
    """

    seconds: float
    size: float
    errors: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"about {format_duration(self.seconds)} and {format_size(self.size)} of disk"


def estimate(
    plan: Plan,
    runs: Sequence[RunConfig],
    engine: Engine,
    out: Path,
    *,
    root: str | Path | None = None,
    finals: int = 0,
    keep_weights: bool = True,
    skip_bad_files: bool = False,
    watch: Callable[[int, int], None] | None = None,
) -> Estimate:
    """Do a few steps of every algorithm on every data set, side by side as the sweep would; nothing is written.

    Args:
        plan: The plan.
        runs: Those of its runs that are left to do.
        engine: Where they will be done.
        out: Where the sweep will write.
        root: Data folder.
        finals: How many runs will follow that cost what the others cost.
        keep_weights: Whether finished runs keep their weights.
        skip_bad_files: Leave out images that cannot be decoded.
        watch: Called with the number of measurements done and their total.

    Returns:
        Time and space for the runs.
    """
    kinds: dict[tuple[str, str], RunConfig] = {}
    for config in runs:
        kinds.setdefault((config.dataset, config.algorithm), config)
    where = None if root is None else str(root)
    jobs = [
        Job(
            config,
            out / f"measure-{number}",
            plan.domains[config.dataset],
            where,
            engine.accelerator,
            keep_weights,
            skip_bad_files,
            measure=True,
        )
        for number, config in enumerate(kinds.values())
    ]
    found = dict(zip(kinds, _measure(engine, jobs, watch), strict=True))
    costs = {kind: outcome for kind, outcome in found.items() if outcome.status is RunState.FINISHED}
    errors = {f"{kind[1]} on {kind[0]}": outcome.error or "" for kind, outcome in found.items() if kind not in costs}
    total = [costs[config.dataset, config.algorithm] for config in runs if (config.dataset, config.algorithm) in costs]
    more = 1 + finals / len(runs) if runs else 1.0
    seconds = sum(outcome.seconds for outcome in total) / min(engine.slots, max(1, len(runs)))
    size = sum(outcome.size for outcome in total)
    return Estimate(more * seconds, more * size, errors)


def _measure(engine: Engine, jobs: Sequence[Job], watch: Callable[[int, int], None] | None) -> list[Outcome]:
    waiting, active = list(reversed(jobs)), 0
    outcomes: dict[Path, Outcome] = {}
    while len(outcomes) < len(jobs):
        while waiting and active < engine.slots:
            engine.submit(waiting.pop())
            active += 1
        for event in engine.wait(0.2):
            if isinstance(event, Outcome):
                outcomes[event.job.folder] = event
                active -= 1
                if watch is not None:
                    watch(len(outcomes), len(jobs))
    return [outcomes[job.folder] for job in jobs]
