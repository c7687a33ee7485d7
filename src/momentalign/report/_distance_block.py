"""How far the domains are apart, as the records tell it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from momentalign.report._accuracy_blocks import ACCURACY
from momentalign.report._blocks import Block, Group, Panel, Tab
from momentalign.report._cases import Case, Ordered
from momentalign.report._charts import heat
from momentalign.report._frames import accuracy_matrix, last_gaps, partner_matrix

_COSTS = (
    "Lost by leaving out: accuracy on a domain's held-out rows when it is trained on, less accuracy on it when it is "
    "not. The more, the further it is from the others."
)


def distance_block(ordered: Ordered) -> Block:
    """What leaving a domain out costs, what a second domain brings the first, and accuracy between all domains."""
    costs, matrices, missing = [], [], []
    for case in ordered.cases:
        matrix = accuracy_matrix(ordered, case)
        if matrix.empty:
            missing.append(f"{case.title}: its records do not compare domains (no single test domains).")
            continue
        costs.append(Group(case.title, _cost_panels(ordered, case, matrix)))
        matrices.append(Group(case.title, _matrix_panels(ordered, case, matrix)))
    tabs = [
        Tab("What leaving out costs", costs, note=_COSTS),
        Tab("Accuracy between domains", matrices, note="Strong cells are low: hard domains stand out as columns."),
    ]
    note = "At the last record of the chosen runs. 'momentalign diagnose' compares domains by transfer measures and "
    note += "derivatives."
    shown = [replace(tab, groups=[group for group in tab.groups if group.panels]) for tab in tabs]
    return Block("domains", "Distances between domains", note, [tab for tab in shown if tab.groups], missing)


def _cost_panels(ordered: Ordered, case: Case, matrix: pd.DataFrame) -> list[Panel]:
    panels = []
    lost = _lost(matrix, ordered.methods)
    if len(lost):
        title = "lost by leaving out, points"
        panels.append(_panel(lost, (ordered.methods, case.domains), ("method", "left out"), title))
    pairs = partner_matrix(ordered, case)
    if len(pairs):
        cells = pairs.rename(columns={"domain": "row", "other": "column"})
        title = "lost by leaving out another as well, points"
        panels.append(_panel(cells, (case.domains, case.domains), ("tested on", "also left out"), title))
    gaps = last_gaps(ordered, case)
    for number, name in (("1", "means"), ("2", "covariances")):
        own = gaps[gaps["order"] == number].rename(columns={"method": "row", "test_domain": "column"})
        if len(own):
            title = f"gap of feature {name} between the others"
            panels.append(_panel(own, (ordered.methods, case.domains), ("method", "left out"), title))
    return panels


def _matrix_panels(ordered: Ordered, case: Case, matrix: pd.DataFrame) -> list[Panel]:
    panels = []
    for method in ordered.methods:
        own = matrix[matrix["method"] == method].rename(columns={"left_out": "row", "domain": "column"})
        if len(own):
            title = f"{method}: {ACCURACY}"
            panels.append(_panel(own, (case.domains, case.domains), ("left out", "tested on"), title, low_is_far=True))
    return panels


def _lost(matrix: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Accuracy on a domain that was trained on (mean over runs that left another out) less that when it was not."""
    rows = []
    for method in methods:
        own = matrix[matrix["method"] == method].pivot(index="left_out", columns="domain", values="value")
        for domain in own.columns:
            inside = own[domain].drop(index=domain, errors="ignore").dropna()
            if domain in own.index and len(inside) and pd.notna(own.at[domain, domain]):
                rows.append({"row": method, "column": domain, "value": inside.mean() - own.at[domain, domain]})
    return pd.DataFrame(rows, columns=["row", "column", "value"])


def _panel(
    frame: pd.DataFrame,
    order: tuple[Sequence[str], Sequence[str]],
    titles: tuple[str, str],
    title: str,
    low_is_far: bool = False,
) -> Panel:
    values = frame["value"]
    low, high = float(values.min()), float(values.max())
    span = (high - low) or 1.0
    decimals = 1 if "points" in title or "%" in title else _decimals(max(abs(low), abs(high)))
    rows: list[dict[str, Any]] = []
    for row, column, value in zip(frame["row"], frame["column"], values, strict=True):
        share = (high - value if low_is_far else value - low) / span
        text = f"{value:.{decimals}f}"
        rows.append(
            {"row": row, "column": column, "value": round(float(value), 5), "text": text, "share": round(share, 3)}
        )
    kept = [
        tuple(name for name in names if name in set(frame[key]))
        for names, key in zip(order, ("row", "column"), strict=True)
    ]
    return Panel(title, rows, partial(heat, rows=kept[0], columns=kept[1], titles=titles, what=title))


def _decimals(largest: float) -> int:
    """As many as give the largest number three digits, so that the numbers of a matrix look alike."""
    return min(6, max(0, 2 - math.floor(math.log10(largest)))) if largest > 0 else 1
