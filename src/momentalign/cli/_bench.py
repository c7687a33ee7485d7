"""`momentalign bench`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from momentalign.cli._settings import find_device


def bench(
    device: Annotated[str, typer.Option(help="cpu, cuda, or cuda:1 and so on.")] = "cpu",
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the numbers go, as JSON.")] = Path("runs/bench.json"),
    quick: Annotated[bool, typer.Option("--quick", help="A few small measurements, to see that it works.")] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's table of time and memory, its numbers beside ours.")
    ] = False,
    training: Annotated[
        bool, typer.Option("--training", help="Whole training runs of five algorithms instead of single steps.")
    ] = False,
    probing_grid: Annotated[
        bool, typer.Option("--probing-grid", help="The paper's grid of linear probes with the converged solver.")
    ] = False,
    sweeps: Annotated[
        bool, typer.Option("--sweeps", help="What sweeps cost besides training: tables, page, engine.")
    ] = False,
    memory: Annotated[
        float, typer.Option(help="GiB that a rival may take; those that need more are listed only.")
    ] = 12,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured, and stop.")] = False,
) -> None:
    """Time and memory of the penalties against each other's and published ways to compute them."""
    import torch

    from momentalign import bench as benchmarks
    from momentalign._files import check_output

    where = torch.device(find_device(device))
    if where.type not in ("cpu", "cuda"):
        raise ValueError(f"'--device' should be cpu or cuda, but is '{device}'.")
    check_output(out, (".json",))
    console = Console()
    plans = {
        "--paper": (paper, benchmarks.paper_plan),
        "--training": (training, benchmarks.training_plan),
        "--probing-grid": (probing_grid, benchmarks.probing_plan),
        "--sweeps": (sweeps, benchmarks.sweep_plan),
    }
    named = [option for option, (wanted, _) in plans.items() if wanted]
    if len(named) > 1:
        raise ValueError(f"'{named[0]}' and '{named[1]}' are two benchmarks. Name one of them.")
    choose = plans[named[0]][1] if named else benchmarks.plan
    sections = list(choose(where, quick=quick, memory_limit=int(memory * 2**30)))
    minutes = "less than a minute" if quick else "a minute or two" if sweeps else "five to ten minutes"
    if paper:
        minutes = "about ten minutes" if where.type == "cuda" else "an hour or more, most of it for images"
        minutes = "a minute or two; images are left out" if quick else minutes
    console.print(f"{len(sections)} groups of measurements on {where}, {minutes}:")
    for section in sections:
        console.print(f"  {section.title}", highlight=False)
    if dry_run:
        return
    rows: list[benchmarks.Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=len(sections))
            for section in sections:
                progress.update(task, description=section.title)
                rows += section.run()
                # After every group, so that an interruption loses one at most.
                benchmarks.write_json(out, rows, benchmarks.environment(where))
                progress.advance(task)
    except KeyboardInterrupt:
        console.print(f"Interrupted. What was measured is in {out}." if rows else "Interrupted. Nothing was written.")
        raise typer.Exit(130) from None
    console.print(benchmarks.paper_table(rows, where) if paper else benchmarks.as_table(rows))
    console.print(f"Written to {out}. Ratios are within this run; docs/performance.md says how to read them.")
