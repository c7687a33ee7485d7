"""`momentalign diagnose`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


def diagnose(
    path: Annotated[Path, typer.Argument(help="A .csv, .csv.gz, .parquet or .npz file.")],
    target: Annotated[str, typer.Option(help="Column of the labels.")] = "y",
    domain: Annotated[str, typer.Option(help="Column that says where a row came from.")] = "domain",
    group: Annotated[str | None, typer.Option(help="Column of groups, which is no feature.")] = None,
    split: Annotated[str | None, typer.Option(help="Column of splits; training rows are compared.")] = None,
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
    from momentalign._files import check_output
    from momentalign.diagnose import diagnose_table, write_page

    check_output(out, (".html", ".htm"), inputs=[path])
    console = Console(highlight=False, markup=False, soft_wrap=True)
    plan = diagnose_table(
        path,
        target=target,
        domain=domain,
        group=group,
        split=split,
        test_domain=test_domain,
        loss=loss,
        components=components,
    )
    for line in plan.lines:
        console.print(line)
    if dry_run:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=1.0)
        report = plan.run(
            l2=l2,
            radius=radius,
            order=order,
            seed=seed,
            progress=lambda part, share: progress.update(task, description=part, completed=share),
        )
    console.print(str(report))
    write_page(report, out)
    console.print(f"The page lies at {out}. Next: momentalign.sklearn fits classifiers that align these domains.")
