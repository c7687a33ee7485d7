"""Structure of the page: chapters of tabs of tables and groups of charts; the groups are also saved as figures."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import vl_convert

from momentalign._files import atomic_write
from momentalign._format import slug
from momentalign.report._charts import ChartRows, with_rows
from momentalign.report._style import NameStyles, chart_config
from momentalign.report._table import TableSection

_WRITERS: dict[str, Callable[..., bytes | str]] = {
    "svg": vl_convert.vegalite_to_svg,
    "png": lambda spec, **options: vl_convert.vegalite_to_png(spec, scale=2, **options),
    "pdf": vl_convert.vegalite_to_pdf,
}


@dataclass(frozen=True, eq=False)
class Panel:
    """One chart; `draw(page=...)` returns its definition for the page or for a file."""

    title: str
    rows: ChartRows
    draw: Callable[..., Any]

    def spec(self, *, page: bool) -> dict[str, Any]:
        """Vega-Lite specification with the numbers."""
        return with_rows(self.draw(page=page), self.rows, self.title)


@dataclass(frozen=True, eq=False)
class PanelGroup:
    """Charts with a common legend, saved as one figure; the title usually is the data set."""

    title: str
    panels: list[Panel]
    styles: NameStyles | None = None
    note: str = ""

    def legend(self) -> list[dict[str, Any]]:
        """Legend entries of the names that occur in the charts."""
        if self.styles is None:
            return []
        shown = {
            row.get(key)
            for panel in self.panels
            for row in panel.rows
            for key in ("method", "model", "label", "domain")
        }
        return [item for item in self.styles.legend() if item["name"] in shown]


@dataclass(frozen=True, eq=False)
class TableWithChart:
    """A table, a group with at most one chart of its numbers, and paragraphs before them."""

    section: TableSection
    group: PanelGroup
    answer: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Tab:
    """One of several views of a chapter; a single tab is shown without its name."""

    name: str
    groups: list[PanelGroup] = field(default_factory=list)
    results: list[TableWithChart] = field(default_factory=list)
    note: str = ""

    def figures(self) -> list[PanelGroup]:
        """All groups that have charts."""
        return [group for group in (*(result.group for result in self.results), *self.groups) if group.panels]


@dataclass(frozen=True, eq=False)
class Chapter:
    """A chapter of the page.

    Args:
        key: Anchor, and first part of its figures' names.
        title: Heading.
        note: What it shows.
        tabs: Empty if there is nothing to show.
        missing: What is not shown and why, a sentence each.
    """

    key: str
    title: str
    note: str
    tabs: list[Tab]
    missing: list[str] = field(default_factory=list)


def write_figures(chapters: list[Chapter], folder: Path, progress: Callable[[float], None]) -> list[Path]:
    """Save every group of charts as SVG, PNG and PDF, named by chapter, tab and group; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, PanelGroup] = {}
    for chapter in chapters:
        for tab in chapter.tabs:
            for group in tab.figures():
                name = "-".join(filter(None, map(file_part, (chapter.key, tab.name, group.title))))
                same = sum(known == name or known.startswith(f"{name}~") for known in figures)
                figures[name if not same else f"{name}~{same + 1}"] = group
    written = []
    try:
        for done, (name, group) in enumerate(figures.items(), start=1):
            spec = figure_json(group)
            for suffix, write in _WRITERS.items():
                path = folder / f"{name}.{suffix}"
                atomic_write(path, write(spec))
                written.append(path)
            progress(done / len(figures))
    except OSError:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
        raise
    return written


def figure_json(group: PanelGroup) -> str:
    """Vega-Lite JSON of a group's charts side by side, with one legend."""
    specs = [panel.spec(page=False) for panel in group.panels]
    names = [item["name"] for item in group.legend()]
    shared = dict.fromkeys(("color", "shape", "strokeDash"), "shared") if names else {}
    joined = {
        "concat": [_with_legend(spec, names) for spec in specs],
        "columns": min(3, len(specs)),
        "resolve": {"scale": shared},
        "config": chart_config(page=False),
        **({"title": group.title} if len(specs) > 1 else {}),
    }
    return json.dumps(joined, allow_nan=False)


def _with_legend(part: Any, names: list[str]) -> Any:
    """The specification with legends restricted to these names."""
    if isinstance(part, list):
        return [_with_legend(item, names) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: {**value, "values": names} if key == "legend" and isinstance(value, dict)
        else value if key == "data"
        else _with_legend(value, names)
        for key, value in part.items()
    }  # fmt: skip


def file_part(text: str) -> str:
    """Text as a part of a file name that is safe on any system; "x" if no character is."""
    return slug(text)[:60].strip("-") or ("x" if text else "")
