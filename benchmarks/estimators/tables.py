"""Tables of the cells as Markdown: mean over domains and worst domain of every method, by half and kind of set."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.estimators.cells import SMALL_ROWS, CellResults
from benchmarks.estimators.methods import BASELINES, SCORES, SEARCHES, TUNED, VARIANTS
from benchmarks.estimators.sets import PARTS, SETS, part_of
from benchmarks.markdown import mean_with_error, table


class Summary(NamedTuple):
    """Scores of a method on a set in some draws: mean over domains and worst domain, (draws,) each."""

    mean: NDArray[np.float64]
    worst: NDArray[np.float64]


def summarize(cells: CellResults, name: str, score: str, *, small: bool) -> dict[str, Summary]:
    """Summary of every method on a set; the draw of all rows, or those of few that have every fold."""
    draws: dict[str, list[CellResults]] = {}
    for key, cell in cells.items():
        set_name, draw, _ = key.split("/")
        if set_name == name and (draw != "0") == small:
            draws.setdefault(draw, []).append(cell["methods"])
    most = max((len(folds) for folds in draws.values()), default=0)
    complete = [folds for _, folds in sorted(draws.items()) if len(folds) == most]
    if not complete:
        return {}
    worst = max if SETS[name].regression else min
    summaries = {}
    for method in complete[0][0]:
        values = [[value for fold in folds for value in fold[method]["scores"][score].values()] for folds in complete]
        summaries[method] = Summary(np.array([np.mean(each) for each in values]), np.array([worst(v) for v in values]))
    return summaries


def markdown_tables(cells: CellResults) -> dict[str, str]:
    """A table for each half, kind of set and size of the training sets that occurs, and of the other settings."""
    tables = {}
    for part in PARTS:
        for regression in (False, True):
            for small in (False, True):
                rows = [
                    row
                    for name in SETS
                    if part_of(name) == part and SETS[name].regression == regression
                    for row in _row(cells, name, small=small)
                ]
                if rows:
                    head = _head(regression=regression)
                    size = f"{SMALL_ROWS}-rows" if small else "all-rows"
                    tables[f"{part}-{kind_of(regression)}-{size}"] = table(head, rows, left=(0, len(head) - 2))
    for regression in (False, True):
        if variants := _variants(cells, regression=regression):
            tables[f"settle-{kind_of(regression)}-other-settings"] = variants
    return tables


def kind_of(regression: bool) -> str:
    """Name of a kind of set."""
    return "regression" if regression else "classification"


def _variants(cells: CellResults, *, regression: bool) -> str:
    """Table of the searches' other settings, as gains over scikit-learn's defaults."""
    score, baseline = next(iter(SCORES[regression])), next(iter(BASELINES[regression]))
    sets = {name: summarize(cells, name, score, small=False) for name in SETS if SETS[name].regression == regression}
    sets = {name: summaries for name, summaries in sets.items() if VARIANTS[regression].keys() <= summaries.keys()}
    if not sets:
        return ""
    rows = []
    for method in (SEARCHES[regression].__name__, *VARIANTS[regression]):
        columns = [_gain(summaries[method], summaries[baseline], relative=regression) for summaries in sets.values()]
        rows.append([method, *columns])
    return table([f"{score}, mean / worst", *sets], rows)


def _head(*, regression: bool) -> list[str]:
    unit = "RMSE" if regression else "accuracy"
    against = ["against RidgeCV"] if regression else ["against the better", "balanced accuracy, gain"]
    columns = [*BASELINES[regression], SEARCHES[regression].__name__, *against, "chosen", "time"]
    return [f"{unit}, mean / worst", *columns]


def _row(cells: CellResults, name: str, *, small: bool) -> Iterator[list[str]]:
    """Line of a set, none without cells."""
    regression = SETS[name].regression
    score = next(iter(SCORES[regression]))
    summaries = summarize(cells, name, score, small=small)
    if not summaries:
        return
    scale, digits = (1.0, 3) if regression else (100.0, 1)
    compared = [*BASELINES[regression], SEARCHES[regression].__name__]
    columns = [
        f"{mean_with_error(s.mean * scale, digits)} / {mean_with_error(s.worst * scale, digits)}"
        for s in map(summaries.__getitem__, compared)
    ]
    ours = summaries[SEARCHES[regression].__name__]
    if regression:
        columns.append(_gain(ours, summaries[TUNED[True]], relative=True))
    else:
        rivals = [summaries[baseline] for baseline in BASELINES[False]]
        better = Summary(np.max([rival.mean for rival in rivals], 0), np.max([rival.worst for rival in rivals], 0))
        columns.append(_gain(ours, better, relative=False))
        balanced = summarize(cells, name, "balanced accuracy", small=small)
        most = np.max([balanced[baseline].mean for baseline in BASELINES[False]], 0)
        columns.append(mean_with_error(100 * (balanced[SEARCHES[False].__name__].mean - most), sign=True))
    yield [name, *columns, *_choices(cells, name, small=small)]


def _choices(cells: CellResults, name: str, *, small: bool) -> tuple[str, str]:
    """What the search chose in the cells of a set, and its time as a multiple of scikit-learn's search."""
    search = SEARCHES[SETS[name].regression].__name__
    chosen: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for key, cell in cells.items():
        set_name, draw, _ = key.split("/")
        if set_name == name and (draw != "0") == small:
            for method, result in cell["methods"].items():
                seconds[method] += result["seconds"]
            ours = cell["methods"][search]
            chosen[ours["chosen"] if ours["stepped"] else "stayed"] += 1
    ratio = seconds[search] / max(seconds[TUNED[SETS[name].regression]], 1e-3)
    return "; ".join(f"{setting}: {count}" for setting, count in chosen.most_common()), f"{ratio:.1f}"


def _gain(ours: Summary, reference: Summary, *, relative: bool) -> str:
    """Gains in the mean and the worst domain, in points or % of the reference."""
    pairs = zip(ours, reference, strict=True)
    mean, worst = (100 * (mine / other - 1 if relative else mine - other) for mine, other in pairs)
    return f"{mean_with_error(mean, 2, sign=True)} / {mean_with_error(worst, 1, sign=True)}{' %' if relative else ''}"
