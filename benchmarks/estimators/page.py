"""Tables and figures of docs/results/estimators.md."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from benchmarks.estimators.cells import SMALL_ROWS, CellResults
from benchmarks.estimators.fresh import SOURCES
from benchmarks.estimators.methods import BASELINES, SCORES, SEARCHES, TUNED
from benchmarks.estimators.rules import rules_table
from benchmarks.estimators.sets import PARTS, SETS, part_of
from benchmarks.estimators.tables import kind_of, markdown_tables, summarize
from benchmarks.figures import Figure, dots
from benchmarks.markdown import number, standard_error, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import Line, RecordFile, json_lines
from momentalign._types import Array

CLASSIFIER, REGRESSOR = (SEARCHES[regression].__name__ for regression in (False, True))
COMPARED = (CLASSIFIER, "LogisticRegression")
EQUAL = 0.05
"""Points, or % of an error, below which two accuracies count as equal, half of the last digit shown."""
SIZES = {False: "all rows", True: f"{SMALL_ROWS} rows of each domain"}


def cell_lines(file: Path) -> Iterator[Line]:
    """One record for each cell of a file that the study wrote."""
    content = json.loads(file.read_text(encoding="utf-8"))
    versions = {"momentalign": content["estimators"]["momentalign"], **content["versions"]}
    for name, cell in content["cells"].items():
        yield {"cell": name, "versions": versions, **cell}


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Tables of each part and kind of set, their summary, and the rules that were compared."""
    cells = {line["cell"]: line for line in records["estimators"]}
    blocks = {
        **markdown_tables(cells),
        "summary": _summary(cells),
        "worst-counts": _counts_table(cells),
        "stayed": ", ".join(f"`{name}`" for name in stayed_sets(cells)) or "none",
        "worst-domain": _worst_table(cells),
        "chosen": _chosen_table(cells),
        "fresh-sets": _fresh_table(),
        **{f"rules-{part}": rules_table(records["estimators-candidates"], part) for part in PARTS},
    }
    return PageContent(blocks, {"gains": Figure(_gain_rows(cells), _draw_gains)})


def mean_gains(cells: CellResults, name: str, *, small: bool) -> Array:
    """Gain of the search in the mean over domains, by draw: points over the better baseline, or % of RidgeCV's."""
    if SETS[name].regression:
        errors = summarize(cells, name, "RMSE", small=small)
        return 100 * (1 - errors[REGRESSOR].mean / errors[TUNED[True]].mean)
    found = summarize(cells, name, "accuracy", small=small)
    better: Array = np.max([found[rival].mean for rival in BASELINES[False]], 0)
    return 100 * (found[CLASSIFIER].mean - better)


def _worst_gains(cells: CellResults, name: str, score: str = "accuracy") -> dict[str, float]:
    """Difference of the worst domains from each baseline and the better one in points, all rows."""
    found = summarize(cells, name, score, small=False)
    gains = {rival: 100 * float((found[CLASSIFIER].worst - found[rival].worst)[0]) for rival in BASELINES[False]}
    return {**gains, "the better": min(gains.values())}


def _worst_error_gain(cells: CellResults, name: str) -> float:
    """How much of RidgeCV's error on its worst domain is gone on the search's, in %, all rows."""
    found = summarize(cells, name, "RMSE", small=False)
    return 100 * (1 - float((found[REGRESSOR].worst / found[TUNED[True]].worst)[0]))


def _counts(gains: Sequence[float]) -> tuple[int, int, int]:
    """How many are better, equal and worse."""
    better, worse = sum(gain > EQUAL for gain in gains), sum(gain < -EQUAL for gain in gains)
    return better, len(gains) - better - worse, worse


def worst_counts(cells: CellResults) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Sets whose worst domain is better, equal and worse, by score and rival."""
    counts = {
        (score, rival): _counts([_worst_gains(cells, name, score)[rival] for name in _sets(regression=False)])
        for score in SCORES[False]
        for rival in BASELINES[False]
    }
    errors = [_worst_error_gain(cells, name) for name in _sets(regression=True)]
    return {**counts, ("RMSE", TUNED[True]): _counts(errors)}


def _counts_table(cells: CellResults) -> str:
    rows = [[f"{score}, against {rival}", *map(str, found)] for (score, rival), found in worst_counts(cells).items()]
    return table(["worst domain, number of sets", "better", "equal", "worse"], rows)


def stayed_sets(cells: CellResults) -> list[str]:
    """Sets of classification where the search stayed everywhere and its mean or worst domain still differs."""
    found = []
    for name in _sets(regression=False):
        results = [cell["methods"][CLASSIFIER] for key, cell in cells.items() if key.startswith(f"{name}/0/")]
        scores = summarize(cells, name, "accuracy", small=False)
        apart = [np.abs(ours - theirs).max() for ours, theirs in zip(*(scores[n] for n in COMPARED), strict=True)]
        if not any(result["stepped"] for result in results) and 100 * max(apart) > EQUAL:
            found.append(name)
    return found


def _sets(*, regression: bool) -> list[str]:
    return [name for name in SETS if SETS[name].regression == regression]


def _summary(cells: CellResults) -> str:
    classification, regression = _sets(regression=False), _sets(regression=True)
    points = {name: float(mean_gains(cells, name, small=False).mean()) for name in classification}
    fresh = [gain for name, gain in points.items() if part_of(name) == "fresh"]
    known = [gain for name, gain in points.items() if part_of(name) != "fresh"]
    percents = [float(mean_gains(cells, name, small=False).mean()) for name in regression]
    few = [float(mean_gains(cells, name, small=True).mean()) for name in classification]
    plain, balanced = (worst_counts(cells)[score, COMPARED[1]] for score in SCORES[False])
    lost = [gain for gain in few if gain < -EQUAL]
    lines = (
        f"In the mean over left-out domains `{CLASSIFIER}` was at most {number(-min(known), 2)} points below the "
        f"better of `LogisticRegression()` and `LogisticRegressionCV()` on each of the {len(known)} sets by which its "
        f"rule was settled and confirmed, and up to {number(max(known), 2)} above it; on {len(fresh)} fresh sets at "
        f"most {number(-min(fresh), 2)} below and up to {number(max(fresh), 2)} above.",
        f"The mean error of `{REGRESSOR}` was at most {number(-min(percents), 2)}% above that of `RidgeCV()` on each "
        f"of {len(percents)} sets, and up to {number(max(percents))}% below it.",
        f"The worst domain's accuracy was better than `LogisticRegression()`'s on {plain[0]} sets, equal on "
        f"{plain[1]}, worse on {plain[2]}; its balanced accuracy, by which the search chooses, better on "
        f"{balanced[0]}, equal on {balanced[1]}, worse on {balanced[2]} ([all counts](#what-it-says)).",
        f"With {SMALL_ROWS} rows of each training domain the better of the two classifiers was better than the search "
        f"on {len(lost)} sets of {len(few)}, by up to {number(-min(few))} points.",
    )
    return "\n".join(f"- {line}" for line in lines)


def _fresh_table() -> str:
    """The fresh sets, and the tables that they are made from."""
    rows = [[name, source.title, f"{source.package}/{source.item}"] for name, source in SOURCES.items()]
    return table(["set", "predicted, and domains", "table"], rows, left=(0, 1, 2))


def _worst_table(cells: CellResults) -> str:
    rows = []
    for name in _sets(regression=False):
        gains = [number(gain, 1, sign=True) for gain in _worst_gains(cells, name).values()]
        rows.append([name, part_of(name), *gains])
    against = [f"against {rival}" for rival in (*BASELINES[False], "the better")]
    return table(["worst domain, accuracy", "part", *against], rows, left=(0, 1))


def _chosen_table(cells: CellResults) -> str:
    """How often the searches stayed, changed L2 only, weighted domains equally, fitted intercepts, or aligned."""
    names = ("stayed", "L2 only", "domains alike", "intercepts", "aligned")
    rows = []
    for regression in (False, True):
        for part in PARTS:
            for small, size in SIZES.items():
                found = [
                    cell["methods"][SEARCHES[regression].__name__]
                    for key, cell in cells.items()
                    if part_of(key.split("/")[0]) == part
                    and SETS[key.split("/")[0]].regression == regression
                    and (key.split("/")[1] != "0") == small
                ]
                kinds = [_kind(result) for result in found]
                counts = [str(kinds.count(kind)) for kind in names]
                rows.append([f"{part}: {kind_of(regression)}, {size}", str(len(found)), *counts])
    return table(["", "cells", *names], rows)


def _kind(result: Mapping[str, Any]) -> str:
    if not result["stepped"]:
        return "stayed"
    if "gradient" in result["chosen"]:
        return "aligned"
    return next((kind for kind in ("domains alike", "intercepts") if kind in result["chosen"]), "L2 only")


def _gain_rows(cells: CellResults) -> list[dict[str, Any]]:
    rows = []
    for name in SETS:
        for small, size in SIZES.items():
            gains = mean_gains(cells, name, small=small)
            mean, kind = float(gains.mean()), kind_of(SETS[name].regression)
            row: dict[str, Any] = {"row": name, "name": size, "kind": kind, "mean": round(mean, 3)}
            if len(gains) > 1:
                error = standard_error(gains.tolist())
                row |= {"low": round(mean - error, 3), "high": round(mean + error, 3)}
            rows.append(row)
    return rows


def _draw_gains(data: alt.Data) -> Any:
    titles = {False: "points over the better of scikit-learn's two", True: "reduction of RidgeCV's error in %"}
    parts = [
        dots(
            data,
            x=title,
            names=list(SIZES.values()),
            sort=_sets(regression=regression),
            where=f"datum.kind == '{kind_of(regression)}'",
            width=260,
        ).properties(title=kind_of(regression))
        for regression, title in titles.items()
    ]
    return alt.hconcat(*parts)


PAGE = StudyPage(
    {
        "estimators": RecordFile(("cell",), cell_lines),
        "estimators-candidates": RecordFile(("cell",), json_lines),
    },
    make_page,
)
