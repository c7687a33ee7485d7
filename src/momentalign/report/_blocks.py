"""What a page is made of: blocks, in them tabs, in them tables and groups of charts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from momentalign.report._chart_parts import Rows, with_rows
from momentalign.report._table import Section
from momentalign.report._theme import Looks


@dataclass(frozen=True, eq=False)
class Panel:
    """One chart.

    Args:
        title: What it shows.
        rows: Its numbers.
        draw: Gives the chart's definition, for the page (`page=True`) or for a file.
    """

    title: str
    rows: Rows
    draw: Callable[..., Any]

    def spec(self, *, page: bool) -> dict[str, Any]:
        """The chart with its numbers, as Vega-Lite reads it."""
        return with_rows(self.draw(page=page), self.rows, self.title)


@dataclass(frozen=True, eq=False)
class Group:
    """Charts that share a legend; one figure.

    Args:
        title: Most often the data set.
        panels: In reading order.
        looks: Of the names in it.
        note: What should be known to read them.
    """

    title: str
    panels: list[Panel]
    looks: Looks | None = None
    note: str = ""

    def legend(self) -> list[dict[str, Any]]:
        """Names that its charts show, with their looks."""
        if self.looks is None:
            return []
        shown = {row.get(key) for panel in self.panels for row in panel.rows for key in ("method", "domain")}
        return [item for item in self.looks.legend() if item["name"] in shown]


@dataclass(frozen=True, eq=False)
class Result:
    """A table and its numbers drawn.

    Args:
        section: The table.
        group: A single chart, or none.
    """

    section: Section
    group: Group


@dataclass(frozen=True, eq=False)
class Tab:
    """One of several views of a block; a block with one tab shows it without the tab's name.

    Args:
        name: On the tab.
        groups: Of charts.
        results: Tables with a chart each.
        note: Above all.
    """

    name: str
    groups: list[Group] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    note: str = ""

    def figures(self) -> list[Group]:
        """All groups of charts."""
        return [group for group in (*(result.group for result in self.results), *self.groups) if group.panels]


@dataclass(frozen=True, eq=False)
class Block:
    """A chapter of the page.

    Args:
        key: Anchor, and first part of its figures' names.
        title: Heading.
        note: What it shows.
        tabs: Views; none where there is nothing to show.
        missing: Sentences on what is not shown, and why.
    """

    key: str
    title: str
    note: str
    tabs: list[Tab]
    missing: list[str] = field(default_factory=list)
