"""What all charts share: looks as channels, sizes, tooltips, and the step from a definition to a chart with numbers."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from momentalign.report._theme import Looks

Rows = Sequence[dict[str, Any]]
Spec = dict[str, Any]
DATA = alt.NamedData("rows")
"""Stands for the numbers in a definition."""
_FOCUS = "focus"
"""Parameter of a chart on the page: the name whose marks stay bright, or an empty text for all."""


def with_rows(spec: Spec, rows: Rows, title: str) -> Spec:
    """A definition with its numbers, as Vega-Lite reads it.

    Args:
        spec: From one of the functions below.
        rows: With the columns that it names.
        title: Shown above it in a file; read aloud on the page.

    Returns:
        The specification.
    """
    place = "description" if "autosize" in spec else "title"
    return {**spec, "data": {"values": list(rows)}, place: title}


class Look:
    """Channels that carry a name's look, and what depends on where the chart goes.

    Args:
        looks: Of the names; None where a chart has none.
        page: For the page; otherwise for a file, with a legend.
        field: Column of the names.
    """

    def __init__(self, looks: Looks | None, page: bool, field: str = "") -> None:
        self.page, self.field = page, field
        if looks is not None:
            names = list(looks.names)
            legend = None if page else alt.Legend(title=None, columns=5, symbolOpacity=1)
            common: dict[str, Any] = {"type": "nominal", "legend": legend, "title": None, "sort": names}
            self.channels = {
                "color": alt.Color(field, scale=alt.Scale(domain=names), **common),
                "strokeDash": alt.StrokeDash(field, scale=alt.Scale(domain=names, range=looks.dashes()), **common),
                "shape": alt.Shape(field, scale=alt.Scale(domain=names, range=looks.shapes()), **common),
            }

    def faded(self, opacity: float, *channels: str) -> dict[str, Any]:
        """Some channels, and on the page an opacity that falls where another name is in focus."""
        strength: Any = alt.value(opacity)
        if self.page:
            test = {"test": f"{_FOCUS} === '' || datum.{self.field} === {_FOCUS}", "value": opacity}
            strength = alt.OpacityValue(0.12 * opacity, condition=test)
        return {name: self.channels[name] for name in channels} | {"opacity": strength}

    def finish(self, layers: Sequence[Any], height: int) -> Spec:
        """The definition with its size and, on the page, the parameter that the legend sets."""
        found: Spec = alt.layer(*layers).to_dict(validate=False)
        spec = {key: value for key, value in found.items() if key not in ("config", "$schema", "data")}
        if not self.page:
            return {**spec, "width": 300, "height": height}
        focus = {"params": [{"name": _FOCUS, "value": ""}]} if self.field else {}
        fit = {"type": "fit-x", "contains": "padding"}
        return {**spec, **focus, "width": "container", "height": height, "autosize": fit}


def tip(field: str, title: str = "", **options: Any) -> alt.Tooltip:
    """A line of a tooltip."""
    numbers = ("step", "mean", "low", "high", "runs", "trials", "trial", "value", "accuracy", "validation")
    return alt.Tooltip(field, type="quantitative" if field in numbers else "nominal", title=title or field, **options)
