"""Tables and figures of docs/results/groups.md."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import altair as alt

from benchmarks.figures import Figure
from benchmarks.groups import tables
from benchmarks.groups.facts import sentence_numbers
from benchmarks.groups.methods import NEEDS
from benchmarks.groups.sets import SETS
from benchmarks.groups.study import AVERAGE, SHIPPED, WORST, GroupStudy
from benchmarks.markdown import standard_error
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import Line, RecordFile, json_lines
from momentalign.report._style import LIGHT

PANELS = {SHIPPED: "As shipped", "worst-group": "Setting chosen by the worst group"}
_COLOURS = {"labels": LIGHT[6], "groups": LIGHT[0], "groups, attributes": LIGHT[1]}
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Tables over all sets, and a table and a figure of each."""
    study = GroupStudy(records["groups"])
    blocks = {
        "sets": tables.sets_table(study),
        "gains-settle": tables.gains_table(study, "settle"),
        "gains-confirm": tables.gains_table(study, "confirm"),
        "winners": tables.winners_table(study),
        "alignment": tables.alignment_table(study),
        "rules": tables.rules_table(study),
        "joint": tables.joint_table(study),
        "seconds": tables.seconds_table(study),
    }
    if "search" in study.methods:
        blocks["choices"] = tables.choices_table(study)
    blocks |= {name: tables.method_table(study, name) for name in study.sets} | sentence_numbers(study)
    figures = {
        name: Figure(figure_rows(study, name), partial(draw_groups, title=SETS[name].title)) for name in study.sets
    }
    return PageContent(blocks, figures)


def figure_rows(study: GroupStudy, name: str) -> list[dict[str, Any]]:
    """Mean and standard error of average and worst group for every method, in both panels."""
    rows = []
    for rule, panel in PANELS.items():
        for method in study.methods:
            row: dict[str, Any] = {"panel": panel, "method": method}
            for axis, measure in (("average", AVERAGE), ("worst", WORST)):
                values = study.scores(name, method, rule, measure)
                mean, error = float(values.mean()), standard_error(values.tolist()) if len(values) > 1 else 0.0
                row |= {axis: round(mean, 3), f"{axis}_low": round(mean - error, 3)}
                row[f"{axis}_high"] = round(mean + error, 3)
            rows.append(row)
    return rows


def draw_groups(data: alt.Data, title: str) -> Any:
    """Average against worst group: a point a method, with standard errors in both directions."""
    names = list(NEEDS)
    colours = [_COLOURS[NEEDS[name]] for name in names]
    kinds = [NEEDS[name] for name in names]
    shapes = [_SHAPES[kinds[:index].count(kinds[index])] for index in range(len(names))]
    legend = alt.Legend(title=None, orient="right", symbolOpacity=1)
    base = alt.Chart(data).encode(
        color=alt.Color("method:N", sort=names, scale=alt.Scale(domain=names, range=colours), legend=legend)
    )
    scale = alt.Scale(zero=False, nice=True)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title="average, %", scale=scale)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title="worst group, %", scale=scale)

    shape = alt.Shape("method:N", sort=names, scale=alt.Scale(domain=names, range=shapes), legend=legend)
    layers = [
        base.mark_rule(opacity=0.5).encode(x=x("average_low"), x2="average_high:Q", y=y("worst")),
        base.mark_rule(opacity=0.5).encode(x=x("average"), y=y("worst_low"), y2="worst_high:Q"),
        base.mark_point(filled=True, size=80, opacity=0.9).encode(x=x("average"), y=y("worst"), shape=shape),
    ]
    panels = [
        alt.layer(*layers).transform_filter(alt.datum.panel == panel).properties(width=270, height=240, title=panel)
        for panel in PANELS.values()
    ]
    return alt.hconcat(*panels).properties(title=title).resolve_scale(x="shared", y="shared")


PAGE = StudyPage({"groups": RecordFile(("set", "seed", "method"), json_lines)}, make_page)
