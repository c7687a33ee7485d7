"""The charts, each defined once: the page embeds them, `--figures` saves them.

A definition refers to columns of its rows and holds no numbers: names of methods and domains are never part of an
expression, and charts of different numbers share a definition. `page=True` gives the chart for the page, otherwise the
chart for a file, with a legend.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import altair as alt

from momentalign.report._style import NameStyles, shade

ChartRows = Sequence[dict[str, Any]]
Spec = dict[str, Any]
DATA = alt.NamedData("rows")  # placeholder for the numbers
_FOCUS = "focus"  # parameter on the page: the name that stays opaque; empty for all


class ChartBuilder:
    """Encoding channels of named marks, and the size and parameters of a chart for the page or a file.

    Args:
        styles: Of the names; None for charts without names.
        page: For the page; otherwise for a file, with a legend.
        field: Column of the names.
    """

    def __init__(self, styles: NameStyles | None, page: bool, field: str = "") -> None:
        self.page, self.field = page, field
        if styles is not None:
            names = list(styles.names)
            legend = None if page else alt.Legend(title=None, columns=5, symbolOpacity=1)
            common: dict[str, Any] = {"type": "nominal", "legend": legend, "title": None, "sort": names}
            self.channels = {
                "color": alt.Color(field, scale=alt.Scale(domain=names), **common),
                "strokeDash": alt.StrokeDash(field, scale=alt.Scale(domain=names, range=styles.dashes()), **common),
                "shape": alt.Shape(field, scale=alt.Scale(domain=names, range=styles.shapes()), **common),
            }

    def faded(self, opacity: float, *channels: str) -> dict[str, Any]:
        """The given channels, and an opacity that drops on the page while another name is in focus."""
        strength: Any = alt.value(opacity)
        if self.page:
            test = {"test": f"{_FOCUS} === '' || datum.{self.field} === {_FOCUS}", "value": opacity}
            strength = alt.OpacityValue(0.12 * opacity, condition=test)
        return {name: self.channels[name] for name in channels} | {"opacity": strength}

    def finish(self, layers: Sequence[Any], height: int) -> Spec:
        """The definition with its size and, on the page, the parameter that the legend sets."""
        layered: Spec = alt.layer(*layers).to_dict(validate=False)
        spec = {key: value for key, value in layered.items() if key not in ("config", "$schema", "data")}
        if not self.page:
            return {**spec, "width": 300, "height": height}
        focus = {"params": [{"name": _FOCUS, "value": ""}]} if self.field else {}
        fit = {"type": "fit-x", "contains": "padding"}
        return {**spec, **focus, "width": "container", "height": height, "autosize": fit}


@cache
def curves(
    *,
    styles: NameStyles,
    y: str,
    scale: str = "linear",
    constant: float = 1.0,
    powers: tuple[int, ...] | None = None,
    tiny: bool = False,
    page: bool,
) -> Spec:
    """Means over steps with a band, one line per method.

    Rows: method, step, mean, low, high, runs, and marked where the line shows its shape. `scale` is "linear", "log" or
    "symlog", linear below `constant`; `powers` of ten are the grid lines of a logarithmic axis; `tiny` numbers are
    written with an exponent.
    """
    options: dict[str, Any] = {"log": {}, "symlog": {"zero": False, "constant": constant}}.get(scale, {"zero": False})
    builder = ChartBuilder(styles, page, "method")
    base = alt.Chart(DATA)
    x = alt.X("step", type="quantitative", title="step", axis=alt.Axis(tickCount=5))
    ticks: dict[str, Any] = {"tickCount": 5} if powers is None else {"values": [10.0**power for power in powers]}
    axis_style = alt.Axis(**ticks, format=".2~e") if tiny else alt.Axis(**ticks)
    axis: dict[str, Any] = {"type": "quantitative", "title": y, "axis": axis_style}
    mean = alt.Y("mean", scale=alt.Scale(type=scale, nice=True, **options), **axis)
    layers = [
        base.mark_area().encode(x=x, y=alt.Y("low", **axis), y2=alt.Y2("high"), **builder.faded(0.13, "color")),
        base.mark_line(strokeWidth=1.8).encode(x=x, y=mean, **builder.faded(1, "color", "strokeDash")),
        base.mark_point(filled=True, size=38)
        .encode(x=x, y=mean, **builder.faded(1, "color", "shape"))
        .transform_filter("datum.marked"),
    ]
    if page:  # invisible and large: easy to hit on a touch screen
        tooltip = [
            tip("method"),
            tip("step", format=","),
            tip("mean", y, format=".4~g"),
            tip("low", "from", format=".4~g"),
            tip("high", "to", format=".4~g"),
            tip("runs", "over"),
        ]
        layers.append(base.mark_point(filled=True, size=90, opacity=0).encode(x=x, y=mean, tooltip=tooltip))
    return builder.finish(layers, 190)


@cache
def dots(
    *,
    styles: NameStyles,
    columns: tuple[str, ...],
    methods: int,
    published: bool,
    x: str,
    chance: float | None = None,
    page: bool,
) -> Spec:
    """A number with its interval for each method and column, published numbers as ticks, chance as a dashed line.

    Rows: method, column, mean, low, high, text, trials, published and published_mean.
    """
    builder = ChartBuilder(styles, page, "method")
    encoding: dict[str, Any] = {
        "y": alt.Y("column", type="nominal", sort=list(columns), title=None, scale=alt.Scale(paddingInner=0.25),
                   axis=alt.Axis(grid=True, tickBand="extent")),
        "yOffset": alt.YOffset("method", type="nominal", sort=list(styles.names)),
    }  # fmt: skip
    axis: dict[str, Any] = {"type": "quantitative", "title": x, "axis": alt.Axis(tickCount=7)}
    scale = alt.Scale(zero=False, nice=True)
    base = alt.Chart(DATA)
    low = alt.X("low", scale=scale, **axis)
    layers = [base.mark_rule(strokeWidth=1.6).encode(x=low, x2=alt.X2("high"), **encoding, **builder.faded(1, "color"))]
    if chance is not None:
        line = base.mark_rule(strokeDash=[5, 4], color=shade("dim", page))
        layers.append(line.encode(x=alt.XDatum(chance)))
    if published:
        theirs = alt.X("published_mean", **axis)
        tick = base.mark_tick(thickness=2, size=11)
        layers.append(tick.encode(x=theirs, **encoding, **builder.faded(0.7, "color")))
    tooltip = [tip("method"), tip("column", "domain"), tip("text", x), tip("trials"), tip("published")]
    mean = alt.X("mean", scale=scale, **axis)
    point = base.mark_point(filled=True, size=62)
    layers.append(point.encode(x=mean, tooltip=tooltip, **encoding, **builder.faded(1, "color", "shape")))
    return builder.finish(layers, len(columns) * (methods * max(9, 20 - methods) + 8))


@cache
def bars(*, methods: tuple[str, ...], x: str, page: bool) -> Spec:
    """A number for each method, written beside its bar, with the range over runs.

    Rows: method, value, low, high, runs, text, and room: a number above high that leaves space for the text.
    """
    y = alt.Y("method", type="nominal", sort=list(methods), title=None)
    axis: dict[str, Any] = {"type": "quantitative", "title": x, "axis": alt.Axis(tickCount=5)}
    ends = (tip(end, title, format=".4~g") for end, title in (("low", "from"), ("high", "to")))
    tooltip = [tip("method"), tip("text", x), *ends, tip("runs")]
    base = alt.Chart(DATA)
    layers = [
        base.mark_bar(height={"band": 0.7}, color=shade("bar", page)).encode(
            y=y, x=alt.X("value", **axis), tooltip=tooltip
        ),
        base.mark_rule(strokeWidth=1.4, color=shade("dim", page)).encode(
            y=y, x=alt.X("low", **axis), x2=alt.X2("high")
        ),
        base.mark_text(align="left", dx=5, fontSize=11).encode(
            y=y, x=alt.X("high", **axis), text=alt.Text("text", type="nominal")
        ),
        # Invisible: reserves room for the text, which Vega ignores when it fits the axis.
        base.mark_point(opacity=0, tooltip=None).encode(y=y, x=alt.X("room", **axis)),
    ]
    return ChartBuilder(None, page).finish(layers, 26 * len(methods))


@cache
def scatter(*, styles: NameStyles, x: str, y: str, powers: tuple[int, ...] | None, page: bool) -> Spec:
    """Runs by one hyper-parameter; selected runs are filled.

    Rows: run, domain, value, accuracy, validation, trial and chosen. `powers` as in :func:`curves`; None for a linear
    axis.
    """
    builder = ChartBuilder(styles, page, "domain")
    scale, axis = alt.Scale(zero=False, nice=True, padding=8), alt.Axis(tickCount=4)
    if powers is not None:
        wide = powers[0] < -2 or powers[-1] > 4
        scale = alt.Scale(type="log", padding=8)
        axis = alt.Axis(values=[10.0**power for power in powers], format=".0e" if wide else "~g")
    encoding: dict[str, Any] = {
        "x": alt.X("value", type="quantitative", title=x, scale=scale, axis=axis),
        "y": alt.Y("accuracy", type="quantitative", title=y, scale=alt.Scale(zero=False, nice=True)),
        "tooltip": [
            tip("domain", "test domain"),
            tip("value", format=".4~g"),
            tip("accuracy", "test", format=".4~g"),
            tip("validation", format=".4~g"),
            tip("trial"),
            tip("run"),
        ],
    }
    base = alt.Chart(DATA)
    chosen = base.mark_point(size=52, filled=True).encode(**encoding, **builder.faded(1, "color", "shape"))
    layers = [
        base.mark_point(size=40, strokeWidth=1.3).encode(**encoding, **builder.faded(0.65, "color", "shape")),
        chosen.transform_filter("datum.chosen"),
    ]
    return builder.finish(layers, 190)


@cache
def heat(*, rows: tuple[str, ...], columns: tuple[str, ...], titles: tuple[str, str], what: str, page: bool) -> Spec:
    """A matrix with its numbers as text.

    Rows of data: row, column, text and share (0 to 1, the strength of the cell). `titles` are of the matrix' rows and
    columns, `what` names its numbers.
    """
    # On the page columns share the available width, which limits their labels.
    limit = alt.ExprRef(f"width / {len(columns)} - 6") if page else 84
    top = alt.Axis(orient="top", labelAngle=0, labelLimit=limit, grid=False, domain=False, ticks=False)
    encoding: dict[str, Any] = {
        "y": alt.Y("row", type="nominal", sort=list(rows), title=titles[0]),
        "x": alt.X("column", type="nominal", sort=list(columns), title=titles[1], axis=top),
        "tooltip": [tip("row", titles[0]), tip("column", titles[1]), tip("text", what)],
    }
    # One colour with varying opacity suits light and dark pages. Above 0.6 white text becomes hard to read.
    strength = alt.Opacity("share", type="quantitative", scale=alt.Scale(domain=[0, 1], range=[0.0, 0.6]), legend=None)
    base = alt.Chart(DATA)
    layers = [
        base.mark_rect(color="#f59e0b").encode(**encoding, opacity=strength),
        base.mark_text(fontSize=12).encode(**encoding, text=alt.Text("text", type="nominal")),
    ]
    return ChartBuilder(None, page).finish(layers, 34 * len(rows))


def decades(values: Sequence[float]) -> tuple[int, ...]:
    """Powers of ten around positive numbers, thinned where there are many."""
    powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    return tuple(powers[:: 1 + len(powers) // 8])


def with_rows(spec: Spec, rows: ChartRows, title: str) -> Spec:
    """A definition with its numbers; on the page the title is a description for screen readers."""
    key = "description" if "autosize" in spec else "title"
    return {**spec, "data": {"values": list(rows)}, key: title}


def tip(field: str, title: str = "", **options: Any) -> alt.Tooltip:
    """One line of a tooltip."""
    numbers = (
        *("step", "mean", "low", "high", "runs", "rows", "trials", "trial"),
        *("value", "accuracy", "validation", "guess"),
    )
    return alt.Tooltip(field, type="quantitative" if field in numbers else "nominal", title=title or field, **options)
