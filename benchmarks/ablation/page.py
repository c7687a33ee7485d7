"""Tables of docs/results/ablation.md."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from benchmarks.ablation.factors import AVERAGED, CHANGES, DEFAULT, HIGHER, LOWER, SAME, TEST_DOMAIN, TRIALS, Factor
from benchmarks.figures import Figure
from benchmarks.markdown import mean_with_error, number, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line
from momentalign.algorithms import draw_hyperparameters, find_algorithm
from momentalign.report._style import LIGHT

WINDOW = 500
"""Steps at the end of a run, and after the end of annealing, whose records are averaged."""
MARGIN = 5.0
"""Points that count as a change."""

CITED = {
    "default": DEFAULT.change,
    "erm": "no penalty (ERM)",
    "control": "no penalty (ERM), 256 rows of a domain",
    "rows": "256 rows of a domain instead of 64",
    "rate": "learning rate 1e-4",
    "momentum": "momentum 0.95, weights / 20",
    "strong": "momentum 0.95, the same weights",
    "hessians": "Hessians only",
    "relative": "relative scaling, weights 100",
    "reset": "the optimizer is not reset where annealing ends",
}
"""Changes that the text names."""
QUOTES = (
    "default-start",
    "default-start-training",
    "default-end",
    "default-end-training",
    "erm-end",
    "rows-end",
    "control-end",
    "rate-end",
    "rate-end-training",
    "momentum-start",
    "momentum-start-training",
    "momentum-end",
    "momentum-end-training",
    "strong-end",
    "strong-end-training",
    "hessians-end",
    "relative-end",
    "reset-start",
)
"""Numbers that the text quotes: a change after annealing, or at the end, on the test domain or the training domains."""
DRAWN = tuple(CITED[name] for name in ("default", "erm", "rows", "rate", "momentum", "relative"))
"""Changes whose curves are drawn."""

Runs = dict[int, Line]


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """What was predicted, and what came out."""
    lines = records["ablation"]
    runs = {factor.change: runs_of_factor(factor, lines) for factor in (DEFAULT, *CHANGES)}
    planned = TRIALS * len(runs)
    return PageContent(
        {
            "predictions": prediction_table(),
            "count": f"{sum(map(len, runs.values()))} of {planned}",
            "margin": number(MARGIN, 0),
            "results": result_table(runs),
            **quoted(runs),
        },
        {"curves": Figure(curve_rows(runs), _draw_curves)},
    )


def runs_of_factor(factor: Factor, lines: Sequence[Line]) -> Runs:
    """Runs of a factor by their trial."""
    found = {}
    for line in lines:
        config = line["run"]["config"]
        if config["algorithm"] == factor.algorithm:
            space = find_algorithm(factor.algorithm).space("mnist", config["steps"])
            if config["hparams"] == draw_hyperparameters(space, 0, factor.overrides):
                found[config["trial"]] = line
    return found


def quoted(runs: Mapping[str, Runs]) -> dict[str, str]:
    """Numbers of the text: accuracies after annealing and at the end."""
    blocks = {}
    for block in QUOTES:
        name, when, *training = block.split("-")
        measure = after_annealing if when == "start" else end
        found = [measure(line, training=bool(training)) for line in runs[CITED[name]].values()]
        blocks[block] = mean_with_error(100 * value for value in found if value is not None) if found else "?"
    return blocks


def curve_rows(runs: Mapping[str, Runs]) -> list[dict[str, Any]]:
    """Mean accuracy over the trials at every record of the drawn changes."""
    rows = []
    for change in DRAWN:
        lines = list(runs[change].values())
        if lines:
            curves = zip(*(line["curves"][f"accuracy|in|{TEST_DOMAIN}"] for line in lines), strict=True)
            for step, values in zip(lines[0]["steps"], curves, strict=True):
                rows.append({"name": change, "step": step, "accuracy": round(100 * statistics.fmean(values), 3)})
    return rows


def _draw_curves(data: alt.Data) -> Any:
    return (
        alt.Chart(data)
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X("step:Q", title="step"),
            y=alt.Y("accuracy:Q", title=f"accuracy on {TEST_DOMAIN}", scale=alt.Scale(zero=False)),
            color=alt.Color(
                "name:N",
                scale=alt.Scale(domain=list(DRAWN), range=list(LIGHT[: len(DRAWN)])),
                sort=list(DRAWN),
                legend=alt.Legend(title=None, orient="top", columns=2),
            ),
        )
        .properties(width=560, height=300)
    )


def prediction_table() -> str:
    """What is changed, what was predicted, and why."""
    rows = [[factor.change, factor.prediction, factor.reason] for factor in (*CHANGES, AVERAGED)]
    return table(["change", "predicted", "because"], rows, left=(0, 1, 2))


def result_table(runs: Mapping[str, Runs]) -> str:
    """Accuracies after annealing and at the end, their difference from the default, and whether it was predicted."""
    default = runs[DEFAULT.change]
    if not default:
        return "*There are no runs yet.*"
    rows = [_row(DEFAULT, default, default)]
    rows += [_row(factor, runs[factor.change], default) for factor in CHANGES if runs[factor.change]]
    rows.append(_row(AVERAGED, default, default, metric="averaged_accuracy"))
    head = ["change", "after annealing", "at the end", "difference from the default", "predicted", "found"]
    head[1:3] = [head[1], "training domains", head[2], "training domains"]
    return table(head, rows, left=(0, 6, 7))


def _row(factor: Factor, runs: Runs, default: Runs, metric: str = "accuracy") -> list[str]:
    cells = [factor.change]
    for measure in (after_annealing, end):
        for training in (False, True):
            found = [measure(line, metric, training=training) for line in runs.values()]
            cells.append(
                mean_with_error(100 * value for value in found if value is not None) if None not in found else ""
            )
    pairs = [100 * (end(line, metric) - end(default[trial])) for trial, line in runs.items() if trial in default]
    if factor is DEFAULT or not pairs:
        return [*cells, "", "", ""]
    outcome = verdict(statistics.fmean(pairs))
    return [
        *cells,
        mean_with_error(pairs, sign=True),
        factor.prediction,
        outcome if outcome == factor.prediction else f"**{outcome}**",
    ]


def verdict(points: float) -> str:
    """What a difference counts as."""
    return SAME if abs(points) <= MARGIN else HIGHER if points > 0 else LOWER


def end(line: Line, metric: str = "accuracy", *, training: bool = False) -> float:
    """Mean accuracy over the records of the last steps: on the test domain, or the training domains' held-out rows."""
    return _mean(line, metric, line["steps"][-1] - WINDOW, training)


def after_annealing(line: Line, metric: str = "accuracy", *, training: bool = False) -> float | None:
    """Mean accuracy over the records after the end of annealing; None without a penalty."""
    boundary = line["run"]["config"]["hparams"].get("anneal_steps")
    return None if boundary is None else _mean(line, metric, boundary, training)


def _mean(line: Line, metric: str, since: int, training: bool) -> float:
    others = [name for name in line["run"]["domains"] if name != TEST_DOMAIN]
    curves = [f"{metric}|out|{name}" for name in others] if training else [f"{metric}|in|{TEST_DOMAIN}"]
    values = [
        value
        for curve in curves
        for step, value in zip(line["steps"], line["curves"][curve], strict=True)
        if since < step <= since + WINDOW and value is not None
    ]
    return statistics.fmean(values)


PAGE = StudyPage({"ablation": SWEEP_RUNS}, make_page)
