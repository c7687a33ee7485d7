"""The charts, each defined once: the page embeds them, `--figures` saves them.

A definition knows no numbers: they come as rows whose columns it names. So names of methods and domains are values of
columns and never part of an expression, and one definition serves all charts that differ in their numbers only.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import altair as alt

from momentalign.report._chart_parts import DATA, Look, Spec, tip
from momentalign.report._theme import Looks


@cache
def curves(
    *,
    looks: Looks,
    y: str,
    scale: str = "linear",
    constant: float = 1.0,
    powers: tuple[int, ...] | None = None,
    tiny: bool = False,
    page: bool,
) -> Spec:
    """Means over steps with a band, a line for each method.

    The rows have method, step, mean, low, high, runs, and marked where the line shows its shape.

    Args:
        looks: Of the methods.
        y: Title of the axis.
        scale: "linear", "log" or "symlog".
        constant: Of the latter: below it the axis is about linear.
        powers: Powers of ten at which a logarithmic axis has its lines.
        tiny: Whether its numbers are best written with an exponent.
        page: For the page; otherwise for a file, with a legend.

    Returns:
        The definition.
    """
    options: dict[str, Any] = {"log": {}, "symlog": {"zero": False, "constant": constant}}.get(scale, {"zero": False})
    look = Look(looks, page, "method")
    base = alt.Chart(DATA)
    x = alt.X("step", type="quantitative", title="step", axis=alt.Axis(tickCount=5))
    places: dict[str, Any] = {"tickCount": 5} if powers is None else {"values": [10.0**power for power in powers]}
    ticks = alt.Axis(**places, format=".2~e") if tiny else alt.Axis(**places)
    axis: dict[str, Any] = {"type": "quantitative", "title": y, "axis": ticks}
    mean = alt.Y("mean", scale=alt.Scale(type=scale, nice=True, **options), **axis)
    layers = [
        base.mark_area().encode(x=x, y=alt.Y("low", **axis), y2=alt.Y2("high"), **look.faded(0.13, "color")),
        base.mark_line(strokeWidth=1.8).encode(x=x, y=mean, **look.faded(1, "color", "strokeDash")),
        base.mark_point(filled=True, size=38)
        .encode(x=x, y=mean, **look.faded(1, "color", "shape"))
        .transform_filter("datum.marked"),
    ]
    if page:  # invisible and large, so that a finger finds them
        tooltip = [
            tip("method"),
            tip("step", format=","),
            tip("mean", y, format=".4~g"),
            tip("low", "from", format=".4~g"),
            tip("high", "to", format=".4~g"),
            tip("runs", "over"),
        ]
        layers.append(base.mark_point(filled=True, size=90, opacity=0).encode(x=x, y=mean, tooltip=tooltip))
    return look.finish(layers, 190)


@cache
def dots(*, looks: Looks, columns: tuple[str, ...], methods: int, published: bool, x: str, page: bool) -> Spec:
    """A number with its interval for each method and domain, published numbers as ticks.

    The rows have method, column, mean, low, high, text, trials, published and published_mean.

    Args:
        looks: Of the methods.
        columns: Domains, and averages, in the order they are shown.
        methods: How many there are.
        published: Whether any number was published.
        x: Title of the axis.
        page: For the page; otherwise for a file, with a legend.

    Returns:
        The definition.
    """
    look = Look(looks, page, "method")
    place: dict[str, Any] = {
        "y": alt.Y("column", type="nominal", sort=list(columns), title=None, scale=alt.Scale(paddingInner=0.25),
                   axis=alt.Axis(grid=True, tickBand="extent")),
        "yOffset": alt.YOffset("method", type="nominal", sort=list(looks.names)),
    }  # fmt: skip
    axis: dict[str, Any] = {"type": "quantitative", "title": x, "axis": alt.Axis(tickCount=7)}
    scale = alt.Scale(zero=False, nice=True)
    base = alt.Chart(DATA)
    low = alt.X("low", scale=scale, **axis)
    layers = [base.mark_rule(strokeWidth=1.6).encode(x=low, x2=alt.X2("high"), **place, **look.faded(1, "color"))]
    if published:
        theirs = alt.X("published_mean", **axis)
        tick = base.mark_tick(thickness=2, size=11)
        layers.append(tick.encode(x=theirs, **place, **look.faded(0.7, "color")))
    words = [tip("method"), tip("column", "domain"), tip("text", x), tip("trials"), tip("published")]
    point = base.mark_point(filled=True, size=62)
    layers.append(
        point.encode(x=alt.X("mean", scale=scale, **axis), tooltip=words, **place, **look.faded(1, "color", "shape"))
    )
    return look.finish(layers, len(columns) * (methods * max(9, 20 - methods) + 8))


@cache
def bars(*, methods: tuple[str, ...], x: str, page: bool) -> Spec:
    """A number for each method, written beside its bar, with the range over runs.

    The rows have method, value, low, high, runs, text and room, a number beyond high that leaves room for the text.

    Args:
        methods: In the order they are shown.
        x: Title of the axis.
        page: For the page; otherwise for a file.

    Returns:
        The definition.
    """
    bar, line = ("var(--bar)", "var(--dim)") if page else ("#c7d2de", "#4a5058")
    y = alt.Y("method", type="nominal", sort=list(methods), title=None)
    axis: dict[str, Any] = {"type": "quantitative", "title": x, "axis": alt.Axis(tickCount=5)}
    words = [tip("method"), tip("text", x), tip("low", "from", format=".4~g"), tip("high", "to", format=".4~g")]
    base = alt.Chart(DATA)
    layers = [
        base.mark_bar(height={"band": 0.7}, color=bar).encode(
            y=y, x=alt.X("value", **axis), tooltip=[*words, tip("runs")]
        ),
        base.mark_rule(strokeWidth=1.4, color=line).encode(y=y, x=alt.X("low", **axis), x2=alt.X2("high")),
        base.mark_text(align="left", dx=5, fontSize=11).encode(
            y=y, x=alt.X("high", **axis), text=alt.Text("text", type="nominal")
        ),
        # Nothing to see: it keeps room for the words, which do not count when the axis is fitted.
        base.mark_point(opacity=0, tooltip=None).encode(y=y, x=alt.X("room", **axis)),
    ]
    return Look(None, page).finish(layers, 26 * len(methods))


@cache
def scatter(*, looks: Looks, x: str, y: str, powers: tuple[int, ...] | None, page: bool) -> Spec:
    """Runs by one hyper-parameter; those that were chosen are filled.

    The rows have run, domain, value, accuracy, validation, trial and chosen.

    Args:
        looks: Of the domains.
        x: Name of the hyper-parameter.
        y: What the vertical axis shows.
        powers: Powers of ten at which a logarithmic axis has its lines; None for a linear one.
        page: For the page; otherwise for a file, with a legend.

    Returns:
        The definition.
    """
    look = Look(looks, page, "domain")
    scale, axis = alt.Scale(zero=False, nice=True, padding=8), alt.Axis(tickCount=4)
    if powers is not None:
        wide = powers[0] < -2 or powers[-1] > 4
        scale = alt.Scale(type="log", padding=8)
        axis = alt.Axis(values=[10.0**power for power in powers], format=".0e" if wide else "~g")
    place: dict[str, Any] = {
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
    chosen = base.mark_point(size=52, filled=True).encode(**place, **look.faded(1, "color", "shape"))
    layers = [
        base.mark_point(size=40, strokeWidth=1.3).encode(**place, **look.faded(0.65, "color", "shape")),
        chosen.transform_filter("datum.chosen"),
    ]
    return look.finish(layers, 190)


@cache
def heat(*, rows: tuple[str, ...], columns: tuple[str, ...], titles: tuple[str, str], what: str, page: bool) -> Spec:
    """A matrix with its numbers written in.

    The rows of data have row, column, text and share (0 to 1, how strong the cell is).

    Args:
        rows: Of the matrix, in order.
        columns: Of the matrix, in order.
        titles: Of its rows and of its columns.
        what: The numbers are.
        page: For the page; otherwise for a file.

    Returns:
        The definition.
    """
    # On the page a column is as wide as there is room for, and its name no wider.
    limit = alt.ExprRef(f"width / {len(columns)} - 6") if page else 84
    top = alt.Axis(orient="top", labelAngle=0, labelLimit=limit, grid=False, domain=False, ticks=False)
    place: dict[str, Any] = {
        "y": alt.Y("row", type="nominal", sort=list(rows), title=titles[0]),
        "x": alt.X("column", type="nominal", sort=list(columns), title=titles[1], axis=top),
        "tooltip": [tip("row", titles[0]), tip("column", titles[1]), tip("text", what)],
    }
    # One colour in more or less of it, as on the transfer page: it needs no second scale for a dark page. With any more
    # of it, white numbers on a dark page would be hard to read.
    strength = alt.Opacity("share", type="quantitative", scale=alt.Scale(domain=[0, 1], range=[0.0, 0.6]), legend=None)
    base = alt.Chart(DATA)
    layers = [
        base.mark_rect(color="#f59e0b").encode(**place, opacity=strength),
        base.mark_text(fontSize=12).encode(**place, text=alt.Text("text", type="nominal")),
    ]
    return Look(None, page).finish(layers, 34 * len(rows))


def decades(values: Sequence[float]) -> tuple[int, ...]:
    """Powers of ten around positive numbers, seven at most."""
    powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    return tuple(powers[:: 1 + len(powers) // 8])
