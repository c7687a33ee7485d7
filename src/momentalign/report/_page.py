"""The report: one self-contained HTML page with tables, charts and provenance. It loads nothing from the network."""

from collections.abc import Callable
from pathlib import Path

from momentalign._format import format_duration
from momentalign._outputs import write_output
from momentalign._types import ReportProgress, ignore_progress
from momentalign.report._accuracy_chapters import accuracy_chapter, answer_chapter, curve_chapter, search_chapter
from momentalign.report._accuracy_table import accuracy_table
from momentalign.report._cases import GroupedSweep, group_cases
from momentalign.report._chapters import Chapter, write_figures
from momentalign.report._provenance import (
    configurations,
    missing_runs,
    recorded_versions,
    run_counts,
)
from momentalign.report._rendering import render_page
from momentalign.report._training_chapters import cost_chapter, gap_chapter, term_chapter
from momentalign.runs import RunState
from momentalign.selection import REACH, Sweep

_MOST_PROBLEMS = 60  # listed on the page


def write_report(
    sweep: Sweep,
    path: str | Path,
    figures: str | Path | None = None,
    *,
    title: str = "",
    reach: float = REACH,
    progress: ReportProgress | None = None,
) -> list[Path]:
    """Write the report page of a sweep, and optionally its charts as files.

    Args:
        sweep: Runs and records, finished or not.
        path: Of the HTML file, which is written atomically.
        figures: Folder for the charts as PNG, SVG and PDF.
        title: Of the page; names the data sets by default.
        reach: Of the rule "extrapolated", see :func:`momentalign.selection.select`.
        progress: Called with the next part and the share that is done, 0 to 1.

    Returns:
        All written files, the page first.
    """
    report_progress = progress or ignore_progress
    end = 0.6 if figures is None else 0.2
    grouped, chapters = make_chapters(sweep, lambda share: report_progress("charts", end * share), reach=reach)
    report_progress("page", end)
    written = [Path(path)]
    write_output(written[0], render_report(grouped, chapters, title))
    if figures is not None:
        written += write_figures(chapters, Path(figures), lambda share: report_progress("figures", 0.4 + 0.6 * share))
    report_progress("done", 1.0)
    return written


def make_chapters(
    sweep: Sweep, progress: Callable[[float], None] | None = None, *, reach: float = REACH
) -> tuple[GroupedSweep, list[Chapter]]:
    """The grouped sweep and the chapters of the page."""
    grouped = group_cases(sweep, reach=reach)
    tables = {rule: accuracy_table(grouped.sweep, rule, reach=reach) for rule in grouped.choices}
    chapters = [answer_chapter(grouped, tables), accuracy_chapter(grouped, tables)]
    others = (curve_chapter, term_chapter, gap_chapter, cost_chapter, search_chapter)
    for make in others:
        if progress is not None:
            progress(len(chapters) / (2 + len(others)))
        chapters.append(make(grouped))
    return grouped, chapters


def render_report(grouped: GroupedSweep, chapters: list[Chapter], title: str = "") -> str:
    """HTML of the page."""
    datasets = ", ".join(case.title for case in grouped.cases)
    problems = _problems(grouped)
    return render_page(
        "page.html.jinja",
        title=title or f"Domain generalization: {datasets}",
        tiles=_tiles(grouped, len(problems)),
        chapters=chapters,
        configurations=configurations(grouped),
        versions=recorded_versions(grouped),
        counts=run_counts(grouped),
        problems=problems,
        shown_problems=_MOST_PROBLEMS,
    )


def _tiles(grouped: GroupedSweep, problems: int) -> list[tuple[str, str]]:
    runs = grouped.sweep.runs.drop_duplicates("folder")  # raw and averaged weights are one run
    finished, total = int((runs["status"] == RunState.FINISHED).sum()), len(runs)
    tiles = [(f"{finished:,}" if finished == total else f"{finished:,} / {total:,}", "runs finished")]
    counts = {"method": len(grouped.methods), "data set": len(grouped.cases), "trial": runs["trial"].nunique()}
    tiles += [(str(number), noun + "s" * (number != 1)) for noun, number in counts.items()]
    if seconds := grouped.sweep.seconds()[runs.index].sum():
        tiles.append((format_duration(seconds), "total training time"))
    return [*tiles, (str(problems), "problem" + "s" * (problems != 1) + " found")]


def _problems(grouped: GroupedSweep) -> list[str]:
    missing = [
        f"{case.title}: {method} lacks {number} runs that other methods have."
        for case in grouped.cases
        for method, number in missing_runs(case).items()
        if number
    ]
    return [*grouped.sweep.problems, *missing]
