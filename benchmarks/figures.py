"""Figures of the results pages: SVG files made from rows of numbers."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from momentalign._files import atomic_write
from momentalign.report._style import LIGHT, chart_config

_NOTE = "<!-- checksum {} -->\n"
# Room for a browser's font, which may be wider than the one that the chart is laid out with.
_PADDING = {"left": 28, "right": 32, "top": 6, "bottom": 6}
_LEGEND = {"columnPadding": 36, "labelLimit": 400}


@dataclass(frozen=True, eq=False)
class Figure:
    """A chart and the rows that it shows.

    The file holds a checksum of the rows and the drawing. So edited numbers are noticed, while another version of the
    drawing library makes no difference.
    """

    rows: Sequence[dict[str, Any]]
    draw: Callable[[alt.Data], Any]

    def save(self, path: Path) -> None:
        """Draw the figure, unless the file shows these rows already."""
        if self.is_current(path):
            return
        chart = self.draw(alt.Data(values=list(self.rows)))
        config = chart_config(page=False)
        config["legend"] = {**config.get("legend", {}), **_LEGEND}
        config["axis"] = {**config.get("axis", {}), "labelFlush": False}
        spec = {**chart.to_dict(), "config": config, "padding": _PADDING}
        drawing = vl_convert.vegalite_to_svg(spec)
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, _NOTE.format(self._checksum(drawing)) + drawing + "\n")

    def is_current(self, path: Path) -> bool:
        """Whether the file shows these rows."""
        if not path.exists():
            return False
        note, _, drawing = path.read_text(encoding="utf-8").partition("\n")
        return note + "\n" == _NOTE.format(self._checksum(drawing.removesuffix("\n")))

    def _checksum(self, drawing: str) -> str:
        rows = json.dumps(list(self.rows), sort_keys=True)
        return hashlib.sha256((rows + drawing).encode()).hexdigest()[:16]


def dots(
    data: alt.Data,
    *,
    x: str,
    names: Sequence[str],
    sort: Sequence[str],
    where: str = "true",
    zero: bool = True,
    width: int = 360,
) -> alt.LayerChart:
    """A point with its interval for every name in every row of the chart.

    Rows of the data: row, name, mean, and low and high where there is an interval.

    Args:
        data: The numbers.
        x: Title of the axis.
        names: Order of the names, which determines colours.
        sort: Order of the chart's rows.
        where: Vega expression of the rows to show, such as `datum.rule == 'mean'`.
        zero: Draw a line at 0.
        width: In pixels.
    """
    colour = alt.Color(
        "name:N",
        scale=alt.Scale(domain=list(names), range=list(LIGHT[: len(names)])),
        sort=list(names),
        legend=alt.Legend(title=None, orient="top", columns=3) if len(names) > 1 else None,
    )
    base = (
        alt.Chart(data)
        .transform_filter(where)
        .encode(
            y=alt.Y("row:N", sort=list(sort), title=None, axis=alt.Axis(grid=True, tickBand="extent", labelLimit=240)),
            yOffset=alt.YOffset("name:N", sort=list(names)),
            color=colour,
        )
    )
    mean = alt.X("mean:Q", title=x, scale=alt.Scale(zero=False))
    layers = [
        base.mark_rule(strokeWidth=1.5)
        .encode(x=alt.X("low:Q", title=x), x2="high:Q")
        .transform_filter("isValid(datum.high)"),
        base.mark_point(filled=True, size=45, opacity=1).encode(x=mean),
    ]
    if zero:
        layers.insert(0, alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule(color="#4a5058").encode(x="at:Q"))
    height = max(14 * len(names), 20) + 6
    return alt.layer(*layers).properties(width=width, height=height * len(sort))
