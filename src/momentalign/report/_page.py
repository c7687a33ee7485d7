"""One page that holds everything: tables, charts, what made them. It asks for nothing and runs nothing but its own."""

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

import momentalign
from momentalign._files import atomic_write
from momentalign.report import _about
from momentalign.report._accuracy_blocks import accuracy_block, curve_block
from momentalign.report._blocks import Block, Panel, Result
from momentalign.report._cases import PREFERRED, Ordered, order
from momentalign.report._distance_block import distance_block
from momentalign.report._figures import write_figures
from momentalign.report._search_block import search_block
from momentalign.report._table import Section, Table
from momentalign.report._tables import accuracy_table
from momentalign.report._theme import DARK, LIGHT, chart_config
from momentalign.report._training_blocks import cost_block, gap_block, term_block
from momentalign.selection import Sweep

Tell = Callable[[str, float], None]
"""Is told what comes next and what share of the whole, 0 to 1, is made."""

_PROBLEMS = 60
"""Shown; a sweep that failed as a whole need not fill the page."""


def write_report(
    sweep: Sweep, path: str | Path, figures: str | Path | None = None, *, title: str = "", progress: Tell | None = None
) -> list[Path]:
    """Write the page of a sweep, whole or not at all, and its charts as files if told to.

    Args:
        sweep: Runs and records, finished or not.
        path: Where the page goes.
        figures: Folder for the charts as PNG, SVG and PDF.
        title: Of the page; names the data sets by default.
        progress: Called with what comes next and the share that is made, 0 to 1.

    Returns:
        All files that were written, the page first.
    """
    tell = progress or (lambda part, share: None)
    end = 0.6 if figures is None else 0.2
    ordered, tables, blocks = make_blocks(sweep, lambda share: tell("charts", end * share))
    tell("page", end)
    target = Path(path)
    _write(target, page(ordered, tables, blocks, title))
    written = [target]
    if figures is not None:
        written += write_figures(blocks, Path(figures), lambda share: tell("figures", 0.4 + 0.6 * share))
    tell("done", 1.0)
    return written


def make_blocks(
    sweep: Sweep, progress: Callable[[float], None] | None = None
) -> tuple[Ordered, dict[str, Table], list[Block]]:
    """What the page shows.

    Args:
        sweep: Runs and records.
        progress: Called with the share of the chapters that is made.

    Returns:
        The sweep in order, its tables by rule, and the chapters.
    """
    ordered = order(sweep)
    tables = {rule: accuracy_table(sweep, rule) for rule in PREFERRED if rule in ordered.choices}
    blocks = [accuracy_block(ordered, tables)]
    for make in (curve_block, term_block, gap_block, cost_block, search_block, distance_block):
        if progress is not None:
            progress(len(blocks) / 7)
        blocks.append(make(ordered))
    return ordered, tables, blocks


def page(ordered: Ordered, tables: dict[str, Table], blocks: list[Block], title: str = "") -> str:
    """The page's text.

    Args:
        ordered: The sweep.
        tables: By rule.
        blocks: Chapters.
        title: Of the page.

    Returns:
        HTML; every name that came from a run is escaped, in JSON too.
    """
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=PackageLoader(__package__, "templates")
    )
    environment.globals |= {"spec": _spec, "common": _common_notes, "best": _best}
    script, library = _template("page.js"), javascript()
    runs = ordered.sweep.runs
    finished = runs[runs["status"] == "finished"]
    datasets = ", ".join(case.title for case in ordered.cases)
    return environment.get_template("page.html.jinja").render(
        title=title or f"Domain generalization: {datasets}",
        subtitle=f"{', '.join(ordered.methods)} on {datasets}.",
        tiles=_tiles(ordered, len(finished)),
        headlines=_headlines(ordered, tables),
        blocks=blocks,
        configurations=_about.configurations(ordered),
        versions=_about.versions(ordered),
        counts=_about.counts(ordered),
        problems=_problems(ordered),
        shown_problems=_PROBLEMS,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src {_hash(library)} {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        style=_style(),
        config=chart_config(page=True),
        library=library,
        script=script,
        licences=_template("licences.txt"),
        version=momentalign.__version__,
        made=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC"),
    )


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that leaves a single name behind."""
    wanted = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = wanted in vl_convert.get_vegalite_versions()
    bundle = vl_convert.javascript_bundle("window.momentalignEmbed = vegaEmbed;", vl_version=wanted if known else None)
    return "(() => {\n" + bundle.replace("</script", "<\\/script") + "\n})();"


def _spec(panel: Panel) -> Markup:
    text = json.dumps(panel.spec(page=True), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # In a script element only these could end it or be read as something else than text.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _style() -> str:
    sheet = _template("page.css")
    for mark, colours in (("/*light*/", LIGHT), ("/*dark*/", DARK)):
        sheet = sheet.replace(mark, " ".join(f"--c{number}: {colour};" for number, colour in enumerate(colours)))
    return sheet


def _tiles(ordered: Ordered, finished: int) -> list[tuple[str, str]]:
    runs = ordered.sweep.runs
    tiles = [
        (f"{finished:,}" if finished == len(runs) else f"{finished:,} / {len(runs):,}", "runs finished"),
        (str(len(ordered.methods)), "method" + "s" * (len(ordered.methods) != 1)),
        (str(len(ordered.cases)), "data set" + "s" * (len(ordered.cases) != 1)),
        (str(runs["trial"].nunique()), "trial" + "s" * (runs["trial"].nunique() != 1)),
    ]
    time = _about.training_time(runs)
    if time.total_seconds():
        tiles.append((_about.spoken(time), "of training in all"))
    problems = len(_problems(ordered))
    tiles.append((str(problems), "problem" + "s" * (problems != 1) + " found"))
    return tiles


def _headlines(ordered: Ordered, tables: dict[str, Table]) -> list[str]:
    """The best method of each data set, under the first rule that has an answer for it."""
    lines, said = [], set()
    for rule, table in tables.items():
        for section in table.sections:
            key = (section.dataset, section.setting)
            rows = [row for row in section.rows if not row.published and row.cells[-1].mean is not None]
            if not section.dataset or key in said or not rows:
                continue
            said.add(key)
            best = max(rows, key=lambda row: row.cells[-1].mean or 0.0)
            what = "worst group" if rule == "worst-group" else "average"
            name = next(case.title for case in ordered.cases if (case.dataset, case.setting) == key)
            line = f"{name}: {best.label} has the best {what}, {best.cells[-1].text}"
            plain = next((row for row in rows if row.algorithm == "erm" and row is not best), None)
            if plain is not None:
                line += f"; {plain.label} {plain.cells[-1].text}"
            lines.append(f"{line} ({rule} selection).")
    return lines


def _problems(ordered: Ordered) -> list[str]:
    missing = [
        f"{case.title}: {method} lacks {number} runs that other methods have."
        for case in ordered.cases
        for method, number in _about.missing_runs(case).items()
        if number
    ]
    return [*ordered.sweep.problems, *missing]


def _common_notes(results: list[Result]) -> list[str]:
    """Notes that all tables share stand above them, once."""
    sections = [result.section for result in results]
    if len(sections) < 2:
        return []
    return [note for note in sections[0].notes if all(note in section.notes for section in sections)]


def _best(section: Section, column: int) -> set[str]:
    """Text of the largest of our numbers in a column, where there is more than one."""
    cells = [row.cells[column] for row in section.rows if not row.published and row.cells[column].mean is not None]
    if len(cells) < 2:
        return set()
    largest = max(f"{cell.mean:.{cell.decimals}f}".rjust(9) for cell in cells)
    return {cell.text for cell in cells if f"{cell.mean:.{cell.decimals}f}".rjust(9) == largest}


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _template(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, content)
