"""Draw docs/figures/outside-the-hull.svg: the hull of three training distributions, and what lies outside it.

Run `python docs/figures/outside_the_hull.py` from the root of the repository.
"""

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert

COLOUR, SHAPE, HULL = "#c44e52", "#3b6fb6", "#8a8f98"
REACH = 0.6
TRAINING = {"+90%": 0.9, "+80%": 0.8}
SHAPE_ACCURACY = 0.73


def affine_hull() -> alt.LayerChart:
    """Three distributions in a plane, their hull, and the combinations with weights of at least -reach."""
    corners = np.array([[0.0, 1.0], [-0.87, -0.5], [0.87, -0.5]])
    # Weights of at least -r that sum to 1: the triangle grows by 1 + 3r around its centre.
    outer = corners * (1 + 3 * REACH)
    layers = [
        _polygon(outer).mark_line(color=HULL, strokeDash=[5, 4]),
        _polygon(corners).mark_line(
            color=SHAPE, fill=SHAPE, fillOpacity=0.18, filled=True, interpolate="linear-closed"
        ),
        _plane(corners).mark_point(color=SHAPE, filled=True, size=90, opacity=1),
        _labels(corners + np.array([[0.0, 0.25], [-0.1, -0.3], [0.1, -0.3]]), ["P₁", "P₂", "P₃"]),
        _labels([[0, -0.08], [0, -0.3]], ["hull:", "mixtures"], size=11),
        _plane([[0.95, 0.45]]).mark_point(color=COLOUR, filled=True, size=90, opacity=1),
        _labels([[0.95, 0.2], [0.95, -0.02]], ["a new", "domain"], size=11),
        _labels([[0, -1.2]], ["weights ≥ −reach"], size=11),
    ]
    return alt.layer(*layers).properties(width=300, height=280, title="Training distributions and their hull")


def accuracies() -> alt.LayerChart:
    """Accuracy of a colour and of a shape classifier on coloured digits, by the share of rows whose colour agrees."""
    shares = np.linspace(0, 1, 11)
    lines = [{"share": s, "accuracy": s, "classifier": "colour"} for s in shares]
    lines += [{"share": s, "accuracy": SHAPE_ACCURACY, "classifier": "shape"} for s in shares]
    marks = [{"share": s, "name": name} for name, s in {**TRAINING, "−90%": 0.1, "reach 2": 0.6}.items()]
    share = alt.X("share:Q", title="share of rows whose colour agrees with the label", scale=alt.Scale(domain=[0, 1]))
    accuracy = alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(domain=[0, 1]))
    colours = alt.Color("classifier:N", scale=alt.Scale(domain=["colour", "shape"], range=[COLOUR, SHAPE]), legend=None)
    band = (
        alt.Chart(_data([{"low": 0.8, "high": 0.9}]))
        .mark_rect(color=SHAPE, opacity=0.18)
        .encode(x="low:Q", x2="high:Q")
    )
    rules = alt.Chart(_data(marks)).mark_rule(color=HULL, strokeDash=[3, 3]).encode(x=share)
    names = (
        alt.Chart(_data(marks))
        .mark_text(angle=270, align="left", dx=6, dy=-5, fontSize=11)
        .encode(x=share, y=alt.value(230), text="name:N")
    )
    curves = alt.Chart(_data(lines)).mark_line(strokeWidth=2.5).encode(x=share, y=accuracy, color=colours)
    ends = [
        {"share": 0.23, "accuracy": 0.34, "text": "colour", "classifier": "colour"},
        {"share": 0.27, "accuracy": 0.78, "text": "shape", "classifier": "shape"},
    ]
    texts = (
        alt.Chart(_data(ends))
        .mark_text(fontSize=13, fontWeight="bold")
        .encode(x=share, y=accuracy, text="text:N", color=colours)
    )
    layered = alt.layer(band, rules, names, curves, texts)
    return layered.properties(width=340, height=280, title="Two classifiers inside and outside it")


def _data(rows: list[dict[str, Any]]) -> alt.Data:
    return alt.Data(
        values=[{k: round(float(v), 4) if not isinstance(v, str) else v for k, v in row.items()} for row in rows]
    )


def _plane(points: Any) -> alt.Chart:
    rows = [{"x": x, "y": y, "order": order} for order, (x, y) in enumerate(points)]
    scale = alt.Scale(domain=[-2.6, 2.6])
    return alt.Chart(_data(rows)).encode(
        x=alt.X("x:Q", scale=scale, axis=None), y=alt.Y("y:Q", scale=alt.Scale(domain=[-1.6, 3.0]), axis=None)
    )


def _polygon(corners: Any) -> alt.Chart:
    return _plane(np.concatenate([corners, corners[:1]])).encode(order="order:Q")


def _labels(points: Any, texts: list[str], size: int = 14) -> alt.LayerChart:
    charts = [
        _plane([point]).mark_text(fontSize=size).encode(text=alt.value(text))
        for point, text in zip(points, texts, strict=True)
    ]
    return alt.layer(*charts)


def figure() -> str:
    """The figure as SVG."""
    both = alt.hconcat(affine_hull(), accuracies(), spacing=40, background="white").configure_view(stroke=None)
    return vl_convert.vegalite_to_svg(both.to_json())


if __name__ == "__main__":
    Path(__file__).with_name("outside-the-hull.svg").write_text(figure(), encoding="utf-8")
