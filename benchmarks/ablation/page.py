"""Tables of docs/results/ablation.md."""

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.ablation.factors import AVERAGED, CHANGES, DEFAULT, HIGHER, LOWER, SAME, TEST_DOMAIN, TRIALS, Factor
from benchmarks.markdown import mean_with_error, number, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line
from momentalign.algorithms import draw_hyperparameters, find_algorithm

WINDOW = 500
"""Steps at the end of a run, and after the end of annealing, whose records are averaged."""
MARGIN = 5.0
"""Points that count as a change."""

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
        }
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
    return table(head, rows, left=(0, 4, 5))


def _row(factor: Factor, runs: Runs, default: Runs, metric: str = "accuracy") -> list[str]:
    ends = {trial: 100 * end(line, metric) for trial, line in runs.items()}
    starts = [100 * value for line in runs.values() if (value := after_annealing(line, metric)) is not None]
    cells = [factor.change, mean_with_error(starts) if starts else "", mean_with_error(ends.values())]
    pairs = [value - 100 * end(default[trial]) for trial, value in ends.items() if trial in default]
    if factor is DEFAULT or not pairs:
        return [*cells, "", "", ""]
    found = verdict(statistics.fmean(pairs))
    return [
        *cells,
        mean_with_error(pairs, sign=True),
        factor.prediction,
        found if found == factor.prediction else f"**{found}**",
    ]


def verdict(points: float) -> str:
    """What a difference counts as."""
    return SAME if abs(points) <= MARGIN else HIGHER if points > 0 else LOWER


def end(line: Line, metric: str = "accuracy") -> float:
    """Mean test accuracy over the records of the last steps."""
    return _mean(line, metric, line["steps"][-1] - WINDOW)


def after_annealing(line: Line, metric: str = "accuracy") -> float | None:
    """Mean test accuracy over the records after the end of annealing; None without a penalty."""
    boundary = line["run"]["config"]["hparams"].get("anneal_steps")
    return None if boundary is None else _mean(line, metric, boundary)


def _mean(line: Line, metric: str, since: int) -> float:
    curve = line["curves"][f"{metric}|in|{TEST_DOMAIN}"]
    values = [
        value
        for step, value in zip(line["steps"], curve, strict=True)
        if since < step <= since + WINDOW and value is not None
    ]
    return statistics.fmean(values)


PAGE = StudyPage({"ablation": SWEEP_RUNS}, make_page)
