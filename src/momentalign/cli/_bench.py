"""`momentalign bench`."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from momentalign.cli._options import DeviceOption, find_device
from momentalign.cli._output import exit_on_interrupt, make_console, progress_bar


def bench(
    device: DeviceOption = "cpu",
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON file for the numbers.")] = Path("runs/bench.json"),
    quick: Annotated[bool, typer.Option("--quick", help="A few small measurements, to check that it works.")] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's table of time and memory, with the published numbers.")
    ] = False,
    training: Annotated[
        bool, typer.Option("--training", help="Whole training runs of five algorithms instead of single steps.")
    ] = False,
    probing_grid: Annotated[
        bool, typer.Option("--probing-grid", help="The paper's grid of linear probes with the converged solver.")
    ] = False,
    sweeps: Annotated[bool, typer.Option("--sweeps", help="Overhead of sweeps: tables, page, engine.")] = False,
    memory: Annotated[
        float, typer.Option(help="Memory limit in GiB; baselines that need more are listed, not run.")
    ] = 12,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and exit.")] = False,
) -> None:
    """Measure time and memory of the penalties, beside published ways to compute them."""
    import torch

    from momentalign import bench as benchmarks
    from momentalign._outputs import check_output

    where = torch.device(find_device(device))
    if where.type not in ("cpu", "cuda"):
        raise ValueError(f"'--device' should be cpu or cuda, but is '{device}'.")
    check_output(out, (".json",))
    if not 0 < memory < math.inf:
        raise ValueError(f"'--memory' should be a positive number of GiB, but is {memory}.")
    console = Console()
    plans = {
        "--paper": (paper, benchmarks.paper_plan),
        "--training": (training, benchmarks.training_plan),
        "--probing-grid": (probing_grid, benchmarks.probing_plan),
        "--sweeps": (sweeps, benchmarks.sweep_plan),
    }
    named = [option for option, (wanted, _) in plans.items() if wanted]
    if len(named) > 1:
        raise ValueError(f"'{named[0]}' and '{named[1]}' are two benchmarks. Give one of them.")
    choose = plans[named[0]][1] if named else benchmarks.standard_plan
    groups = list(choose(where, quick=quick, memory_limit=int(memory * 2**30)))
    minutes = "less than a minute" if quick else "a minute or two" if sweeps else "five to ten minutes"
    if paper:
        minutes = "two or three minutes" if where.type == "cuda" else "an hour or more, most of it for images"
        minutes = "a minute or two, digits only" if quick else minutes
    console.print(f"{len(groups)} groups of measurements on {where}, {minutes}:")
    for group in groups:
        console.print(f"  {group.title}", highlight=False)
    if dry_run:
        return
    rows: list[benchmarks.BenchmarkRow] = []

    def interrupted() -> str:
        return f"Interrupted. Saved what was measured to {out}." if rows else "Interrupted. Nothing was saved."

    with exit_on_interrupt(console, interrupted), progress_bar(console, keep=True) as progress:
        task = progress.add_task("", total=len(groups))
        for group in groups:
            progress.update(task, description=group.title)
            rows += group.run()
            # After every group, so that an interruption loses at most one.
            benchmarks.write_benchmark(out, rows, benchmarks.environment(where))
            progress.advance(task)
    console.print(benchmarks.paper_table(rows, where) if paper else benchmarks.benchmark_tables(rows))
    make_console().print(f"Saved to {out}. Ratios are within this run; docs/performance.md explains them.")
