"""What `sweep` and `reproduce` have in common: where runs are done, what they will cost, and how far they are."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from momentalign.sweep import Engine, Plan, Tally


def make_engine(
    name: str,
    out: Path,
    *,
    jobs: int | None,
    device: str,
    per_gpu: int,
    address: str | None = None,
    cpus: int = 1,
) -> "Engine":
    """The place where runs are done.

    Args:
        name: "local" or "ray".
        out: The sweep's folder.
        jobs: Runs at once.
        device: "cpu", "cuda" or "auto".
        per_gpu: Runs that share a GPU.
        address: Of a Ray cluster.
        cpus: Cores for each run on a Ray cluster.

    Returns:
        The engine; the caller closes it.
    """
    from momentalign.sweep import LocalEngine

    if name == "local":
        return LocalEngine(jobs, accelerator=device, per_gpu=per_gpu)
    from momentalign.sweep import RayEngine

    return RayEngine(out, address, jobs=jobs, cpus=cpus, accelerator=device, per_gpu=per_gpu)


def run_plan(
    console: Console, plan: "Plan", engine: "Engine", out: Path, *, weights: bool, dry_run: bool, **options: Any
) -> "Tally | None":
    """Say what a plan will cost, run it with a bar, and close the engine.

    Args:
        console: Where to print.
        plan: What to run.
        engine: Where.
        out: The sweep's folder.
        weights: Whether finished runs keep their weights.
        dry_run: Stop before the first run.
        **options: Data folder, `retry_failed` and `skip_bad_files`.

    Returns:
        How it went; None after a dry run.

    Raises:
        Exit: With 130 after an interruption.
    """
    from momentalign.sweep import run_sweep

    try:
        announce(console, plan, engine, out, weights=weights, **options)
        if dry_run:
            console.print("Nothing was run.")
            return None
        with SweepBar(console, plan) as bar:
            return run_sweep(plan, out, engine, keep_weights=weights, watch=bar.show, **options)
    except KeyboardInterrupt:
        console.print("Interrupted. Run the same command again to go on.")
        raise typer.Exit(130) from None
    finally:
        engine.close()


def announce(
    console: Console,
    plan: "Plan",
    engine: "Engine",
    out: Path,
    *,
    root: Path | None,
    retry_failed: bool = False,
    weights: bool = True,
    skip_bad_files: bool = False,
) -> None:
    """Say what there is to do and what it will cost.

    Args:
        console: Where to.
        plan: What is to be run.
        engine: Where it will be run; a few steps are measured there.
        out: The sweep's folder.
        root: Data folder.
        retry_failed: Whether failed runs count as left to do.
        weights: Whether finished runs keep their weights.
        skip_bad_files: Whether images that cannot be decoded are left out.

    Raises:
        ValueError: There is too little room, no file can be written there, or runs there are of data that changed.
        ModuleNotFoundError: Training needs something that is not installed.
    """
    import shutil

    from momentalign._files import check_writable
    from momentalign._format import format_size, pluralize
    from momentalign.runs import find_clashes
    from momentalign.sweep import LocalEngine, estimate, remaining
    from momentalign.training import check_installed, check_precision

    check_writable(out.absolute())
    left = remaining(plan, out, retry_failed=retry_failed)
    if left.changed:
        runs, dataset = pluralize(len(left.changed), "run"), left.changed[0].dataset
        raise ValueError(
            f"{out} holds {runs} on what {dataset} held before it changed. Use another --out, or remove them."
        )
    number = len(left.runs) + left.finals
    if number < len(plan.runs) + plan.number_of_finals:
        console.print(f"{number} of them {'is' if number == 1 else 'are'} left to do.")
    for names, number in find_clashes(plan.all_runs, out).items():
        console.print(
            f"Note: {number} runs in {out} have the same data set, algorithm, test domains, trial and set as planned "
            f"ones, but not the same {names}. A table shows one of two such runs; another --out keeps them apart."
        )
    if not left.runs:
        return
    if isinstance(engine, LocalEngine) and any(config.setting == "finetune" for config in left.runs):
        check_installed()
        check_precision(left.runs[0].precision, engine.accelerator)
    with console.status("Measuring a few steps …") as status:
        cost = estimate(
            plan,
            left.runs,
            engine,
            out.absolute(),
            root=root,
            finals=left.finals,
            keep_weights=weights,
            skip_bad_files=skip_bad_files,
            watch=lambda done, of: status.update(f"Measuring a few steps: {done} of {of} methods done …"),
        )
    console.print(f"On {engine.description}: {cost}.")
    for what, error in cost.errors.items():
        console.print(f"{what} could not be measured: {error}")
    existing = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if cost.size > free:
        raise ValueError(
            f"The sweep needs about {format_size(cost.size)}, but {existing} has {format_size(free)} left. "
            "Use another --out" + (", or --no-weights." if weights else ".")
        )


class SweepBar:
    """Progress over runs, those under way counting by their share.

    Args:
        console: Where to.
        plan: What is run.
    """

    def __init__(self, console: Console, plan: "Plan") -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=console)
        self.total = len(plan.runs) + plan.number_of_finals
        self.task = self.progress.add_task("", total=self.total)
        self.shares: dict[str, float] = {}

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, tally: "Tally", event: Any) -> None:
        """Show where the sweep is.

        Args:
            tally: What is done.
            event: What happened, if anything.
        """
        share = getattr(event, "share", None)
        if share is not None:
            self.shares[event.job.name] = share
        elif event is not None:
            self.shares.pop(event.job.name, None)
        done = tally.finished + tally.before + len(tally.failed)
        failed = f", {len(tally.failed)} failed" if tally.failed else ""
        text = f"{done} of {self.total} runs{failed}"
        self.progress.update(self.task, completed=done + sum(self.shares.values()), description=text)


def say_notes(console: Console, tally: "Tally") -> None:
    """Say once what the runs had to say, for instance which files they left out.

    Args:
        console: Where to.
        tally: How the sweep went.
    """
    from momentalign._format import printable

    for note in tally.notes[:_NOTES]:
        console.print(f"Note: {printable(note)}")
    if len(tally.notes) > _NOTES:
        console.print(f"And {len(tally.notes) - _NOTES} notes more.")


_NOTES = 20
