"""Numbers and the figure of README.md and docs/index.md."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from benchmarks.costs.page import PAGE as COSTS
from benchmarks.costs.page import cma_span
from benchmarks.costs.performance import small_step
from benchmarks.costs.rows import PERFORMANCE
from benchmarks.domainbed.page import select_runs
from benchmarks.domainbed.plans import STUDIES
from benchmarks.estimators.page import PAGE as ESTIMATORS
from benchmarks.estimators.page import mean_gains
from benchmarks.estimators.sets import SETS
from benchmarks.figures import Figure
from benchmarks.groups.facts import sentence_numbers
from benchmarks.groups.page import PAGE as GROUPS
from benchmarks.groups.study import GroupStudy
from benchmarks.markdown import number
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line
from momentalign.algorithms import algorithm_names, find_algorithm
from momentalign.report._style import LIGHT

STUDY = STUDIES["colored-mnist"]
TRAINING, NEW = ("+90%", "+80%"), "-90%"
METHODS = ("erm", "cma", "cma-momentum", "fishr")
"""Methods that the figure shows."""
RULES = {
    "training-domain": "selected by accuracy on the training domains",
    "extrapolated": "selected by the rule extrapolated",
}
GUESSING, SHAPE = 50, 75
"""Accuracies of a guess, and of the best classifier that ignores colour."""


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Accuracies on ColoredMNIST's domain -90%, what the estimators gain, and what a penalty costs."""
    chosen = chosen_runs(records["colored-mnist"])
    groups = sentence_numbers(GroupStudy(records["groups"]))
    small = small_step(records["performance"])
    blocks = {
        "vit-time": cma_span(records["costs"], "seconds", "vit"),
        "small-step": "?" if small is None else number(small),
        "methods": str(len(algorithm_names())),
        "erm-training": _text(chosen, "erm", "training-domain", "training"),
        "erm-mean": _text(chosen, "erm", "training-domain"),
        "erm-extrapolated": _text(chosen, "erm", "extrapolated"),
        "momentum-extrapolated": _text(chosen, "cma-momentum", "extrapolated"),
        "momentum-training": _text(chosen, "cma-momentum", "extrapolated", "training"),
        "fishr-extrapolated": _text(chosen, "fishr", "extrapolated"),
        **table_gains(records["estimators"]),
        **{name: groups[name] for name in ("subsampled-gain", "subsampled-cost")},
    }
    return PageContent(blocks, {"unseen": Figure(_figure_rows(chosen), _draw)})


def table_gains(lines: Sequence[Line]) -> dict[str, str]:
    """Largest losses and gains: points over the better of scikit-learn's two classifiers, and % of RidgeCV's error."""
    cells = {line["cell"]: line for line in lines}

    def gains(*, regression: bool, small: bool = False) -> list[float]:
        names = [name for name in SETS if SETS[name].regression == regression]
        return [float(mean_gains(cells, name, small=small).mean()) for name in names]

    points, errors = gains(regression=False), gains(regression=True)
    return {
        "tables": str(len(points)),
        "tables-loss": number(-min(points), 2),
        "tables-gain": number(max(points), 2),
        "few-rows-loss": number(-min(gains(regression=False, small=True))),
        "regressions": str(len(errors)),
        "regressions-loss": number(-min(errors)),
        "regressions-gain": number(max(errors)),
    }


def chosen_runs(lines: Sequence[Line]) -> pd.DataFrame:
    """What each rule chose in each trial: accuracy in % on the new domain, and on held-out rows of the others."""
    curves = {line["run"]["hash"]: line for line in lines}
    frames = []
    for rule in RULES:
        found = select_runs(lines, STUDY, rule)
        assert found is not None
        found = found[found["algorithm"].isin(METHODS) & (found["test_domain"] == NEW)]
        training = [_training(curves[run], step) for run, step in zip(found["run"], found["step"], strict=True)]
        frames.append(found.assign(rule=rule, training=training, new=100 * found["test"]))
    return pd.concat(frames)


def _training(line: Line, step: int) -> float:
    """Mean accuracy in % on held-out rows of the training domains at a record."""
    at = line["steps"].index(step)
    return 100 * statistics.fmean(line["curves"][f"accuracy|out|{domain}"][at] for domain in TRAINING)


def _mean(chosen: pd.DataFrame, method: str, rule: str, column: str) -> tuple[float, float]:
    """Mean over trials, and population standard deviation / √trials."""
    values = chosen.loc[(chosen["algorithm"] == method) & (chosen["rule"] == rule), column].tolist()
    return statistics.fmean(values), statistics.pstdev(values) / len(values) ** 0.5


def _text(chosen: pd.DataFrame, method: str, rule: str, column: str = "new") -> str:
    return " ± ".join(number(value) for value in _mean(chosen, method, rule, column))


def _figure_rows(chosen: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for method in METHODS:
        for rule, name in RULES.items():
            (new, error), (training, _) = (_mean(chosen, method, rule, column) for column in ("new", "training"))
            ends = {"low": round(new - error, 3), "high": round(new + error, 3)}
            numbers = {"new": round(new, 3), "training": round(training, 3), **ends}
            rows.append({"row": find_algorithm(method).label, "name": name, **numbers})
    return rows


def _draw(data: alt.Data) -> Any:
    names = list(RULES.values())
    scale = alt.Scale(domain=[0, 100])
    base = alt.Chart(data).encode(
        y=alt.Y(
            "row:N",
            sort=[find_algorithm(name).label for name in METHODS],
            title=None,
            axis=alt.Axis(grid=True, tickBand="extent", labelLimit=240, labelFontSize=13),
        ),
        yOffset=alt.YOffset("name:N", sort=names),
        color=alt.Color(
            "name:N",
            scale=alt.Scale(domain=names, range=[LIGHT[1], LIGHT[0]]),
            sort=names,
            legend=alt.Legend(title=None, orient="top", columns=1, labelFontSize=12, symbolOpacity=1),
        ),
    )
    title = "accuracy in %: ● new domain, ○ held-out rows of the training domains"
    new = alt.X("new:Q", title=title, scale=scale)
    marks = [{"at": GUESSING, "text": "guessing"}, {"at": SHAPE, "text": "best without colour"}]
    lines = alt.Chart(alt.Data(values=marks)).encode(x=alt.X("at:Q", scale=scale))
    layers = [
        lines.mark_rule(color="#4a5058", strokeDash=[3, 3]),
        lines.mark_text(align="left", baseline="top", dx=4, dy=-14, fontSize=11, color="#4a5058").encode(
            y=alt.value(0), text="text:N"
        ),
        base.mark_rule(strokeWidth=2, opacity=0.35).encode(x=new, x2="training:Q"),
        base.mark_rule(strokeWidth=5, opacity=0.5).encode(x=alt.X("low:Q", title=title, scale=scale), x2="high:Q"),
        base.mark_point(filled=True, size=80, opacity=1).encode(x=new),
        base.mark_point(filled=False, size=60, opacity=1, fill="white", strokeWidth=2).encode(
            x=alt.X("training:Q", title=title, scale=scale)
        ),
    ]
    return alt.layer(*layers).properties(width=460, height=46 * len(METHODS))


PAGE = StudyPage(
    {
        "colored-mnist": SWEEP_RUNS,
        "estimators": ESTIMATORS.files["estimators"],
        "costs": COSTS.files["costs"],
        "performance": PERFORMANCE,
        **GROUPS.files,
    },
    make_page,
    texts=("../README.md", "index.md"),
)
