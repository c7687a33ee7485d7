"""Tables of the cells: mean over domains, worst domain, both averaged over seeds, as Markdown."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.estimators.cells import CellResults
from benchmarks.estimators.sets import SETS

_BASELINES = {False: "LogisticRegression", True: "Ridge"}


class MethodScores(NamedTuple):
    """A method on a set: (seeds, domains) of its scores."""

    method: str
    scores: NDArray[np.float64]


def method_scores(cells: CellResults, name: str, metric: str) -> list[MethodScores]:
    """Scores of every method on a set by "accuracy", "r2" or "rmse"; only seeds that have all domains."""
    grid: dict[str, dict[str, Any]] = {}
    for key, cell in cells.items():
        set_name, seed, domain = key.split("/", 2)
        if set_name == name:
            grid.setdefault(seed, {})[domain] = cell["methods"]
    most = max((len(domains) for domains in grid.values()), default=0)
    complete = [dict(sorted(domains.items())) for _, domains in sorted(grid.items()) if len(domains) == most]
    if not complete:
        return []
    methods = next(iter(complete[0].values()))
    return [
        MethodScores(method, np.array([[cell[method][metric] for cell in domains.values()] for domains in complete]))
        for method in methods
    ]


def markdown_tables(cells: CellResults) -> Iterator[str]:
    """Yield a titled Markdown table for each set that occurs."""
    for name, study_set in SETS.items():
        score, scale = ("r2", 100.0) if study_set.regression else ("accuracy", 100.0)
        rows = method_scores(cells, name, score)
        if not rows:
            continue
        domains = sorted({key.split("/", 2)[2] for key in cells if key.startswith(f"{name}/")})
        yield f"### {study_set.title}\n"
        yield f"{len(rows[0].scores)} seeds. Columns: {', '.join(domains)}.\n" if len(domains) <= 4 else ""
        baseline = next(row.scores for row in rows if row.method == _BASELINES[study_set.regression]) * scale
        yield _table(rows, baseline, domains if len(domains) <= 4 else [], scale, "R²" if study_set.regression else "%")
        if study_set.regression:
            errors = method_scores(cells, name, "rmse")
            yield _table(errors, next(row.scores for row in errors if row.method == "Ridge"), [], 1.0, "RMSE")
        yield _choices(cells, name)


def _table(rows: list[MethodScores], baseline: NDArray[np.float64], domains: list[str], scale: float, unit: str) -> str:
    head = [f"mean, {unit}", f"worst domain, {unit}", "gain in the mean", *domains]
    text = [f"| | {' | '.join(head)} |", "|---|" + "--:|" * len(head)]
    for method, raw in rows:
        scores = raw * scale
        worst = scores.max(1) if unit == "RMSE" else scores.min(1)
        columns = [
            _plus_minus(scores.mean(1)),
            _plus_minus(worst),
            _plus_minus(scores.mean(1) - baseline.mean(1), sign="+"),
            *(f"{value:.1f}" for value in scores.mean(0)[: len(domains)]),
        ]
        text.append(f"| {method} | {' | '.join(columns)} |")
    return "\n".join(text) + "\n"


def _plus_minus(values: NDArray[np.float64], sign: str = "") -> str:
    """Mean over seeds and its standard error (ddof 1)."""
    mean = f"{values.mean():{sign}.1f}"
    return mean if len(values) < 2 else f"{mean} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def _choices(cells: CellResults, name: str) -> str:
    """How often the searches chose what, over all cells of a set."""
    text = []
    for method in ("CV", "CV, rule best", "CV, by accuracy", "CV, pairs of weights"):
        chosen: Counter[str] = Counter()
        for key, cell in cells.items():
            result = cell["methods"].get(method)
            if key.startswith(f"{name}/") and result is not None:
                weights = f"gradient {result['gradient_weight']:g}, Hessian {result.get('hessian_weight', 0):g}"
                kind = weights if result["balanced"] else "plain"
                chosen[f"{kind} at L2 {result['l2']:g}"] += 1
        if chosen:
            text.append(f"{method}: " + "; ".join(f"{kind} {count}×" for kind, count in chosen.most_common()) + ".")
    return "\n".join(text) + "\n"
