"""What of a plan is left to do."""

from pathlib import Path
from typing import NamedTuple

from momentalign.runs import RunConfig, RunState, data_stamp, read_runs, run_state
from momentalign.sweep._plan import Plan, most_finals


class Remaining(NamedTuple):
    """What of a plan is left to do.

    Args:
        runs: Runs that would be begun or gone on with: first trials, and final runs where all first trials of their
            data set and algorithm are done.
        finals: How many final runs follow at most of sets that the first trials have yet to choose.
        changed: Runs that are there, but on what their data held before these changed.
    """

    runs: tuple[RunConfig, ...]
    finals: int
    changed: tuple[RunConfig, ...] = ()


def remaining(plan: Plan, out: str | Path, *, retry_failed: bool = False) -> Remaining:
    """Look what is left to do of a plan.

    Args:
        plan: The plan.
        out: Parent of the runs' folders, which may not exist.
        retry_failed: Whether failed runs count as left.

    Returns:
        The runs, and how many more may follow.
    """
    folder = Path(out)
    stamps = stamps_of(plan)

    def state(config: RunConfig) -> RunState:
        return run_state(folder / config.hash(), config, stamps[config.dataset])[0]

    def left(config: RunConfig) -> bool:
        return is_left(state(config), retry_failed)

    states = [(config, state(config)) for config in plan.runs]
    changed = tuple(config for config, found in states if found is RunState.CHANGED)
    first = [config for config, found in states if is_left(found, retry_failed)]
    undecided = {(config.dataset, config.algorithm) for config in first}
    final = [
        config
        for config in final_runs(plan, folder)
        if (config.dataset, config.algorithm) not in undecided and left(config)
    ]
    to_come = {key: sum(map(left, runs)) for key, runs in plan.finals.items() if key[:2] in undecided}
    return Remaining((*first, *final), most_finals(to_come), changed)


def stamps_of(plan: Plan) -> dict[str, str | None]:
    """What the data of a plan hold at the moment, by data set; None for those that go by a name."""
    return {dataset: data_stamp(dataset) for dataset in plan.domains}


def final_runs(plan: Plan, out: Path) -> tuple[RunConfig, ...]:
    """The final runs that follow from the first trials as far as these are done, finished ones among them.

    Args:
        plan: The plan.
        out: Parent of the runs' folders, which may not exist.

    Returns:
        The runs; none where no first trial can be read.
    """
    if not plan.finals:
        return ()
    try:
        sweep = read_runs(out)
    except ValueError:  # no folder, or no run in it that can be read
        return ()
    return plan.final_runs(sweep)


def is_left(status: RunState, retry_failed: bool) -> bool:
    """Whether a run is to be begun or gone on with.

    Args:
        status: Of :func:`momentalign.runs.run_state`.
        retry_failed: Whether failed runs are tried again.

    Returns:
        Whether it is.
    """
    left = status in (RunState.NEW, RunState.RUNNING, RunState.DISK_FULL)
    return left or (retry_failed and status in (RunState.FAILED, RunState.DAMAGED))
