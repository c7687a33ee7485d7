"""`momentalign report`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from momentalign._format import format_size, pluralize
from momentalign.cli._options import ReachOption
from momentalign.cli._output import make_console, share_bar


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs, ours or DomainBed's; finished or not.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Path of the page.")] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the page's charts as PNG, SVG and PDF.", show_default="none")
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.", show_default="the data sets")] = "",
    reach: ReachOption = None,
) -> None:
    """Write one HTML page on a sweep: what was gained over ERM, tables by selection rule, curves, costs, provenance."""
    from momentalign._outputs import check_folder, check_output
    from momentalign._validation import check_nonnegative
    from momentalign.runs import read_runs
    from momentalign.selection import REACH

    check_output(out, (".html", ".htm"))
    if figures is not None:
        check_folder(figures, "--figures")
    reach = REACH if reach is None else check_nonnegative("--reach", reach)
    console = make_console()
    sweep = read_runs(folders)
    from momentalign.report import write_report  # takes seconds

    problems = f" {pluralize(len(sweep.problems), 'problem')} found, listed on the page." if sweep.problems else ""
    console.print(f"{pluralize(len(sweep.runs), 'run')}, {len(sweep.finished())} finished.{problems}")
    with share_bar(console) as progress:
        written = write_report(sweep, out, figures, title=title, reach=reach, progress=progress)
    size = format_size(written[0].stat().st_size)
    console.print(f"Saved the page to {out} ({size}). Open it in a browser; it needs no network.")
    if figures is not None:
        console.print(f"Saved {len(written) - 1} chart files to {figures}.")
    else:
        console.print(
            "Next: save the charts as files with --figures DIR, or print the tables with "
            f"'momentalign table {shlex.quote(str(folders[0]))}'."
        )
