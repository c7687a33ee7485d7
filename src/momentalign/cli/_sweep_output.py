"""Engine and progress of a plan's runs, for `sweep` and `reproduce`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from momentalign.cli._output import (
    RESUME_NOTE,
    ProgressLines,
    description_column,
    exit_on_interrupt,
    print_block,
    print_lines,
    terminal_width,
)

if TYPE_CHECKING:
    from momentalign.runs import Sweep
    from momentalign.sweep import Engine, Plan, Tally

_MOST_NOTES = 20


def make_engine(
    name: str, out: Path, *, jobs: int | None, device: str, per_gpu: int, address: str | None = None, cpus: int = 1
) -> "Engine":
    """The engine "local" or "ray"; the caller closes it."""
    from momentalign.sweep import LocalEngine, RayEngine

    if name == "local":
        return LocalEngine(jobs, accelerator=device, per_gpu=per_gpu)
    return RayEngine(out, address, jobs=jobs, cpus=cpus, accelerator=device, per_gpu=per_gpu)


def run_plan(
    console: Console,
    plan: "Plan",
    engine: "Engine",
    out: Path,
    *,
    dry_run: bool,
    retry_failed: bool = False,
    **options: Any,
) -> "Tally | None":
    """Print what remains of a plan, execute it with a progress bar, and close the engine; None after a dry run.

    The options are those of :func:`momentalign.sweep.run_sweep`.
    """
    from momentalign.sweep import run_sweep

    with closing(engine), exit_on_interrupt(console, RESUME_NOTE):
        print_remaining(console, plan, engine, out, retry_failed=retry_failed)
        if dry_run:
            console.print("Nothing was run.")
            return None
        with _sweep_bar(console, plan) as update:
            return run_sweep(plan, out, engine, retry_failed=retry_failed, progress=update, **options)


def print_remaining(console: Console, plan: "Plan", engine: "Engine", out: Path, *, retry_failed: bool = False) -> None:
    """Print how many runs remain, and where they run.

    Raises ValueError if the folder is not writable or has runs on data that have changed, and ModuleNotFoundError if
    training needs a package that is not installed.
    """
    from momentalign._format import pluralize
    from momentalign._outputs import check_writable
    from momentalign.runs import find_clashes
    from momentalign.sweep import LocalEngine, remaining
    from momentalign.training import check_installed, check_precision

    check_writable(out.absolute())
    left = remaining(plan, out, retry_failed=retry_failed)
    if left.changed:
        runs, dataset = pluralize(len(left.changed), "run"), left.changed[0].dataset
        raise ValueError(f"{out} has {runs} from before {dataset} changed. Use another --out, or remove them.")
    number = len(left.runs) + left.finals
    if number < len(plan.runs) + plan.number_of_finals:
        console.print(f"{number} of them {'is' if number == 1 else 'are'} left to do.")
    for names, number in find_clashes(plan.all_runs, out).items():
        console.print(
            f"Note: {number} runs in {out} have the same data set, algorithm, test domains, trial and set as planned "
            f"ones, but differ in {names}. A table shows only one of two such runs; use another --out to keep both."
        )
    if not left.runs:
        return
    if isinstance(engine, LocalEngine) and any(config.setting == "finetune" for config in left.runs):
        check_installed()
        check_precision(left.runs[0].precision, engine.accelerator)
    console.print(f"On {engine.description}.")


@contextmanager
def _sweep_bar(console: Console, plan: "Plan") -> "Iterator[Callable[[Tally, Any], None]]":
    """Progress bar over the runs of a plan, updated with the tally and an event or None; active runs count in part."""
    columns = (description_column(), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    total = len(plan.runs) + plan.number_of_finals
    shares: dict[str, float] = {}
    lines, known = ProgressLines(console, wait=1), False
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total)

        def update(tally: "Tally", event: Any) -> None:
            nonlocal lines, known
            share = getattr(event, "share", None)
            if share is not None:
                known = known or share > shares.get(event.job.name, share) > 0
                if not known:  # a process or its first step has started: time counts from here
                    lines = ProgressLines(console, wait=1)
                shares[event.job.name] = share
            elif event is not None:
                shares.pop(event.job.name, None)
            done = tally.finished + tally.before + len(tally.failed)
            failed = f", {len(tally.failed)} failed" if tally.failed else ""
            text, completed = f"{done} of {total} runs{failed}", done + sum(shares.values())
            bar.update(task, completed=completed, description=text)
            lines.update(text, completed / total)

        yield update


def print_table(console: Console, results: "Sweep", rule: str, *, reach: float | None = None) -> None:
    """Print the accuracies of finished runs under a selection rule."""
    from momentalign.report import accuracy_table
    from momentalign.selection import REACH

    console.print()
    table = accuracy_table(results, rule, reach=REACH if reach is None else reach)
    print_block(console, table.to_text(terminal_width(console)))


def print_notes(console: Console, tally: "Tally", problems: Iterable[str]) -> None:
    """Print the notes of the runs, for instance on skipped files, and the problems of their folders."""
    print_lines(console, (f"Note: {note}" for note in tally.notes[:_MOST_NOTES]))
    if len(tally.notes) > _MOST_NOTES:
        console.print(f"And {len(tally.notes) - _MOST_NOTES} more notes.")
    print_lines(console, problems)
