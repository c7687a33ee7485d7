"""The command line, thin: parse, call, print."""

import sys
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
except ModuleNotFoundError as error:
    print(f"The command line needs {error.name}. Install it with: pip install 'momentalign[cli]'", file=sys.stderr)
    sys.exit(2)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Exact gradient, Hessian and higher-order alignment for domain generalization.",
)


@app.callback()
def _program() -> None:
    """A callback keeps the name of a command that is alone."""


@app.command()
def bench(
    device: Annotated[str, typer.Option(help="cpu, cuda, or cuda:1 and so on.")] = "cpu",
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the numbers go, as JSON.")] = Path("runs/bench.json"),
    quick: Annotated[bool, typer.Option("--quick", help="A few small measurements, to see that it works.")] = False,
    memory: Annotated[
        float, typer.Option(help="GiB that a rival may take; those that need more are listed only.")
    ] = 12,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured, and stop.")] = False,
) -> None:
    """Time and memory of the penalties against each other's and published ways to compute them."""
    import torch

    from momentalign import bench as benchmarks

    try:
        where = torch.device(device)
        torch.empty(1, device=where)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"'--device' should name a device that torch can use here, but is '{device}': {error}"
        ) from None
    if where.type not in ("cpu", "cuda"):
        raise ValueError(f"'--device' should be cpu or cuda, but is '{device}'.")
    if out.is_dir():
        raise ValueError(f"'--out' should name a file, but {out} is a folder.")
    console = Console()
    sections = list(benchmarks.plan(where, quick=quick, memory_limit=int(memory * 2**30)))
    minutes = "less than a minute" if quick else "five to ten minutes"
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
    console.print(benchmarks.as_table(rows))
    console.print(f"Written to {out}. Ratios are within this run; docs/performance.md says how to read them.")


@app.command()
def diagnose(
    path: Annotated[Path, typer.Argument(help="A .csv, .csv.gz, .parquet or .npz file.")],
    target: Annotated[str, typer.Option(help="Column of the labels.")] = "y",
    domain: Annotated[str, typer.Option(help="Column that says where a row came from.")] = "domain",
    test_domain: Annotated[
        str | None, typer.Option(help="A domain that counts as the unseen target instead of as a source.")
    ] = None,
    loss: Annotated[
        str, typer.Option(help="cross_entropy or squared_error; auto takes the latter for many different numbers.")
    ] = "auto",
    l2: Annotated[float, typer.Option(help="Adds l2/2 times the head's squared norm to every loss.")] = 1e-2,
    radius: Annotated[float, typer.Option(help="Of the ball of heads, on standardised features.")] = 1.0,
    order: Annotated[int, typer.Option(help="Highest order of derivatives, 1 to 3.")] = 3,
    components: Annotated[int, typer.Option(help="Principal components to keep of wider features.")] = 50,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the page goes.")] = Path("transfer.html"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be compared, and stop.")] = False,
) -> None:
    """Which domains differ, in what order of derivative, and what that bounds: a report and a page."""
    from momentalign.diagnose import diagnose_table, write_page

    if out.is_dir():
        raise ValueError(f"'--out' should name a file, but {out} is a folder.")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    plan = diagnose_table(path, target=target, domain=domain, test_domain=test_domain, loss=loss, components=components)
    for line in plan.lines:
        console.print(line)
    if dry_run:
        return
    with console.status("Comparing the domains …"):
        report = plan.run(l2=l2, radius=radius, order=order, seed=seed)
    console.print(str(report))
    write_page(report, out)
    console.print(f"The page lies at {out}. Next: momentalign.sklearn fits classifiers that align these domains.")


def main() -> None:
    """Run a command; an error that a user can mend is one line and exit code 2, not a traceback."""
    try:
        app(standalone_mode=True)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        Console(stderr=True, highlight=False).print(f"Error: {error}", markup=False, soft_wrap=True)
        sys.exit(2)
