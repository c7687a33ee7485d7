"""Hyper-parameters against accuracy, run by run."""

from functools import partial
from typing import Any

import pandas as pd

from momentalign.report._accuracy_blocks import ACCURACY
from momentalign.report._blocks import Block, Group, Panel, Tab
from momentalign.report._cases import Case, Ordered
from momentalign.report._charts import decades, scatter
from momentalign.report._theme import Looks
from momentalign.selection import candidates


def search_block(ordered: Ordered) -> Block:
    """A tab for each method, in it a chart for each hyper-parameter that took more than one value."""
    found = {rule: candidates(ordered.sweep, rule) for rule in {case.rule for case in ordered.cases if case.rule}}
    tabs, missing = [], []
    for method in ordered.methods:
        groups = [group for case in ordered.cases if (group := _group(case, method, found)) is not None]
        if groups:
            tabs.append(Tab(method, groups))
        else:
            missing.append(f"{method}: no finished runs with different hyper-parameters.")
    if not tabs:
        missing = ["no method has finished runs with different hyper-parameters."]
    note = "A point is a run; filled points were chosen."
    return Block("search", "Hyper-parameters", note, tabs, missing)


def _group(case: Case, method: str, found: dict[str, pd.DataFrame]) -> Group | None:
    if case.rule is None:
        return None
    runs = case.runs[case.runs["method"] == method]
    points = found[case.rule]
    points = points[points["run"].isin(runs.index)]
    if points.empty:
        return None
    chosen = set(case.chosen["run"])
    worst = case.rule == "worst-group"
    rows = [
        {
            "run": point.run,
            "domain": "worst group" if worst else point.test_domain,
            "accuracy": round(point.test * 100, 3),
            "validation": round(point.validation * 100, 3),
            "trial": point.trial,
            "chosen": point.run in chosen,
        }
        for point in points.itertuples()
    ]
    looks = Looks.of(["worst group"] if worst else case.domains)
    panels = []
    for name, values in _searched(runs.loc[[row["run"] for row in rows], "hparams"]):
        own = [{**row, "value": value} for row, value in zip(rows, values, strict=True) if value is not None]
        numbers = [row["value"] for row in own]
        log = min(numbers) > 0 and max(numbers) > 8 * min(numbers)
        powers = decades(numbers) if log else None
        panels.append(Panel(name, own, partial(scatter, looks=looks, x=name, y=ACCURACY, powers=powers)))
    return Group(case.title, panels, looks, f"Under {case.rule} selection.") if panels else None


def _searched(hparams: pd.Series) -> list[tuple[str, list[float | None]]]:
    """Numeric hyper-parameters that differ between runs, each with its values."""
    found = []
    for name in dict.fromkeys(str(key) for one in hparams for key in one):
        values: list[Any] = [one.get(name) for one in hparams]
        numbers = [float(v) if isinstance(v, int | float) and not isinstance(v, bool) else None for v in values]
        if len({number for number in numbers if number is not None}) > 1:
            found.append((name, numbers))
    return found
