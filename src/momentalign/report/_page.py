"""The report: one self-contained HTML page with tables, charts and provenance. It loads nothing from the network."""

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

import momentalign
from momentalign._files import atomic_write
from momentalign._format import format_duration, printable
from momentalign._types import ReportProgress
from momentalign.report._accuracy_chapters import accuracy_chapter, curve_chapter, search_chapter
from momentalign.report._accuracy_table import accuracy_table
from momentalign.report._cases import GroupedSweep, group_cases
from momentalign.report._chapters import Chapter, Panel, TableWithChart, write_figures
from momentalign.report._comparison import COMPARISON_NOTE, headlines
from momentalign.report._distance_chapter import distance_chapter
from momentalign.report._group_table import ERRORS
from momentalign.report._provenance import (
    configurations,
    missing_runs,
    recorded_versions,
    run_counts,
    training_seconds,
)
from momentalign.report._style import DARK, LIGHT, chart_config
from momentalign.report._table import TableSection
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
    report_progress = progress or (lambda part, share: None)
    end = 0.6 if figures is None else 0.2
    grouped, chapters = make_chapters(sweep, lambda share: report_progress("charts", end * share), reach=reach)
    report_progress("page", end)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(target, render_report(grouped, chapters, title))
    written = [target]
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
    chapters = [accuracy_chapter(grouped, tables)]
    others = (curve_chapter, term_chapter, gap_chapter, cost_chapter, search_chapter, distance_chapter)
    for make in others:
        if progress is not None:
            progress(len(chapters) / (1 + len(others)))
        chapters.append(make(grouped))
    return grouped, chapters


def render_report(grouped: GroupedSweep, chapters: list[Chapter], title: str = "") -> str:
    """HTML of the page; names that come from runs are escaped, in JSON too, and their control characters shown."""
    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_without_controls,
        loader=PackageLoader(__package__, "templates"),
    )
    environment.globals |= {"spec": _spec_json, "common": _common_notes, "best": _best_texts}
    script, library = _template("page.js"), vega_javascript()
    datasets = ", ".join(case.title for case in grouped.cases)
    problems = _problems(grouped)
    return environment.get_template("page.html.jinja").render(
        title=title or f"Domain generalization: {datasets}",
        subtitle=f"{', '.join(grouped.methods)} on {datasets}.",
        tiles=_tiles(grouped, len(problems)),
        headlines=headlines(grouped),
        headline_note=COMPARISON_NOTE,
        chapters=chapters,
        configurations=configurations(grouped),
        versions=recorded_versions(grouped),
        counts=run_counts(grouped),
        problems=problems,
        shown_problems=_MOST_PROBLEMS,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src {_csp_hash(library)} {_csp_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        style=_stylesheet(),
        config=chart_config(page=True),
        library=library,
        script=script,
        licences=_template("licences.txt"),
        version=momentalign.__version__,
        created=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC"),
    )


@cache
def vega_javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed bundled as one script that defines a single global name."""
    wanted = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = wanted in vl_convert.get_vegalite_versions()
    bundle = vl_convert.javascript_bundle("window.momentalignEmbed = vegaEmbed;", vl_version=wanted if known else None)
    return "(() => {\n" + bundle.replace("</script", "<\\/script") + "\n})();"


def _spec_json(panel: Panel) -> Markup:
    text = json.dumps(
        _without_controls(panel.spec(page=True)), separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    # Characters that could end a script element or are special in JavaScript.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _without_controls(value: Any) -> Any:
    """Texts, at any depth, without control characters; Markup is left as it is."""
    if isinstance(value, dict):
        return {_without_controls(key): _without_controls(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_controls(part) for part in value]
    return printable(value, keep="\n") if type(value) is str else value


def _stylesheet() -> str:
    sheet = _template("page.css")
    for mark, colours in (("/*light*/", LIGHT), ("/*dark*/", DARK)):
        sheet = sheet.replace(mark, " ".join(f"--c{index}: {colour};" for index, colour in enumerate(colours)))
    return sheet


def _tiles(grouped: GroupedSweep, problems: int) -> list[tuple[str, str]]:
    runs = grouped.sweep.runs.drop_duplicates("folder")  # raw and averaged weights are one run
    finished, total = int((runs["status"] == RunState.FINISHED).sum()), len(runs)
    tiles = [(f"{finished:,}" if finished == total else f"{finished:,} / {total:,}", "runs finished")]
    counts = {"method": len(grouped.methods), "data set": len(grouped.cases), "trial": runs["trial"].nunique()}
    tiles += [(str(number), noun + "s" * (number != 1)) for noun, number in counts.items()]
    if seconds := training_seconds(runs):
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


def _common_notes(results: list[TableWithChart]) -> list[str]:
    """Notes that all tables share, shown once above them."""
    sections = [result.section for result in results]
    if len(sections) < 2:
        return []
    return [note for note in sections[0].notes if all(note in section.notes for section in sections)]


def _best_texts(section: TableSection, column: int) -> set[str]:
    """Texts of the best of our numbers in a column of several."""
    cells = [row.cells[column] for row in section.rows if not row.published and row.cells[column].mean is not None]
    if len(cells) < 2:
        return set()
    choose = min if section.columns[column] in ERRORS else max
    best = choose(f"{cell.mean:.{cell.decimals}f}".rjust(9) for cell in cells)
    return {cell.text for cell in cells if f"{cell.mean:.{cell.decimals}f}".rjust(9) == best}


def _csp_hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _template(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")
