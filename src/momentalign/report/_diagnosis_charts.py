"""Charts of the diagnosis page; as in `_charts`, a definition holds no numbers."""

from functools import cache
from typing import Any

import altair as alt

from momentalign.report._charts import DATA, ChartBuilder, Spec, tip
from momentalign.report._style import NameStyles, palette, shade

_MANY = 15
"""More domains than this get narrower lines."""


def line_height(count: int) -> int:
    """Height in pixels of one of `count` domains."""
    return 40 if count <= 6 else 28 if count <= _MANY else 16


@cache
def score_dots(*, styles: NameStyles, domains: tuple[str, ...], x: str, page: bool) -> Spec:
    """A score with its interval for each domain and model, and a tick for a guess.

    Rows: model, domain, value, low, high, guess, text and rows.
    """
    builder = ChartBuilder(styles, page, "model")
    axis = alt.Axis(grid=True, tickBand="extent", labelOverlap=False)
    encoding: dict[str, Any] = {
        "y": alt.Y("domain", type="nominal", sort=list(domains), title=None, axis=axis),
        "yOffset": alt.YOffset("model", type="nominal", sort=list(styles.names)),
    }
    across: dict[str, Any] = {"type": "quantitative", "title": x, "axis": alt.Axis(tickCount=6)}
    scale = alt.Scale(zero=False, nice=True)
    base = alt.Chart(DATA)
    tooltip = [tip("model"), tip("domain"), tip("text", x), tip("guess", "guessing", format=".3~g"), tip("rows")]
    layers = [
        base.mark_rule(strokeWidth=1.6).encode(
            x=alt.X("low", scale=scale, **across), x2=alt.X2("high"), **encoding, **builder.faded(1, "color")
        ),
        base.mark_tick(thickness=2, size=9, color=shade("dim", page)).encode(
            x=alt.X("guess", scale=scale, **across), **encoding, opacity=alt.value(0.8)
        ),
        base.mark_point(filled=True, size=55).encode(
            x=alt.X("value", scale=scale, **across), tooltip=tooltip, **encoding, **builder.faded(1, "color", "shape")
        ),
    ]
    return builder.finish(layers, len(domains) * line_height(len(domains)))


@cache
def stacked_shares(*, styles: NameStyles, domains: tuple[str, ...], page: bool) -> Spec:
    """Shares of the classes of each domain, side by side. Rows: label, domain, share, text and number."""
    builder = ChartBuilder(styles, page, "label")
    y = alt.Y("domain", type="nominal", sort=list(domains), title=None, axis=alt.Axis(labelOverlap=False))
    x = alt.X("share", type="quantitative", stack="normalize", title="share of the rows", axis=alt.Axis(format="%"))
    order = alt.Order("number", type="quantitative")
    tooltip = [tip("domain"), tip("label", "class"), tip("text", "share")]
    bars = alt.Chart(DATA).mark_bar(height={"band": 0.75})
    layer = bars.encode(y=y, x=x, order=order, tooltip=tooltip, **builder.faded(1, "color"))
    return builder.finish([layer], len(domains) * min(line_height(len(domains)), 30))


@cache
def value_ranges(*, domains: tuple[str, ...], x: str, page: bool) -> Spec:
    """Median and middle half of a number in each domain. Rows: domain, value, low, high and text."""
    y = alt.Y("domain", type="nominal", sort=list(domains), title=None, axis=alt.Axis(labelOverlap=False))
    across: dict[str, Any] = {"type": "quantitative", "title": x, "scale": alt.Scale(zero=False, nice=True)}
    base = alt.Chart(DATA)
    layers = [
        base.mark_bar(height={"band": 0.6}, color=shade("bar", page)).encode(
            y=y, x=alt.X("low", **across), x2=alt.X2("high")
        ),
        base.mark_point(filled=True, size=55, opacity=1, color=palette(page)[0]).encode(
            y=y, x=alt.X("value", **across), tooltip=[tip("domain"), tip("text", "median and middle half")]
        ),
    ]
    return ChartBuilder(None, page).finish(layers, len(domains) * min(line_height(len(domains)), 30))


@cache
def column_strips(*, styles: NameStyles | None, columns: tuple[str, ...], page: bool) -> Spec:
    """Means of the domains in each column, a line each. Rows: column, domain, value, text and missing."""
    builder = ChartBuilder(styles, page, "domain" if styles is not None else "")
    y = alt.Y("column", type="nominal", sort=list(columns), title=None, axis=alt.Axis(grid=True, labelOverlap=False))
    title = "mean of a domain, in standard deviations"
    x = alt.X("value", type="quantitative", title=title, axis=alt.Axis(tickCount=7))
    tooltip = [tip("column"), tip("domain"), tip("text", "mean"), tip("missing", "missing values")]
    colour = {} if styles is not None else {"color": palette(page)[0]}
    point = alt.Chart(DATA).mark_point(filled=True, size=60, **colour)
    style = builder.faded(0.9, "color", "shape") if styles is not None else {"opacity": alt.value(0.45)}
    return builder.finish([point.encode(x=x, y=y, tooltip=tooltip, **style)], 28 * len(columns))
