"""Chapter on distances between domains, computed from the records."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from momentalign.report._accuracy_chapters import ACCURACY_AXIS
from momentalign.report._cases import Case, GroupedSweep
from momentalign.report._chapters import Chapter, Panel, PanelGroup, Tab
from momentalign.report._charts import heat
from momentalign.report._frames import accuracy_matrix, last_gaps, partner_matrix

_LOSS_NOTE = (
    "Accuracy on a domain's held-out rows in runs that train on it, minus accuracy on the domain in runs that leave it "
    "out. Domains that lose most differ most from the others."
)


def distance_chapter(grouped: GroupedSweep) -> Chapter:
    """Accuracy lost by leaving domains out, gaps of moments, and accuracy between all domains."""
    costs, matrices, missing = list[PanelGroup](), list[PanelGroup](), list[str]()
    for case in grouped.cases:
        matrix = accuracy_matrix(grouped, case)
        if matrix.empty:
            missing.append(f"{case.title}: no runs with a single test domain.")
            continue
        for groups, make in ((costs, _cost_panels), (matrices, _matrix_panels)):
            if panels := make(grouped, case, matrix):
                groups.append(PanelGroup(case.title, panels))
    tabs = [
        Tab("Accuracy lost by leaving out", costs, note=_LOSS_NOTE),
        Tab(
            "Accuracy between domains",
            matrices,
            note="Strong colour means low accuracy: hard domains stand out as columns.",
        ),
    ]
    note = (
        "At the last record of the selected runs. 'momentalign diagnose' compares domains by transfer measures and "
        "derivatives."
    )
    return Chapter("domains", "Distances between domains", note, [tab for tab in tabs if tab.groups], missing)


def _cost_panels(grouped: GroupedSweep, case: Case, matrix: pd.DataFrame) -> list[Panel]:
    panels = []
    lost = _lost(matrix, grouped.methods)
    if len(lost):
        title = "lost by leaving out a domain, points"
        panels.append(_panel(lost, (grouped.methods, case.domains), ("method", "left out"), title))
    pairs = partner_matrix(grouped, case)
    if len(pairs):
        cells = pairs.rename(columns={"domain": "row", "other": "column"})
        title = "lost by leaving out a second domain, points"
        panels.append(_panel(cells, (case.domains, case.domains), ("tested on", "also left out"), title))
    gaps = last_gaps(grouped, case)
    for order, name in ((1, "means"), (2, "covariances")):
        own = gaps[gaps["order"] == order].rename(columns={"method": "row", "test_domain": "column"})
        if len(own):
            title = f"gap of feature {name} between the training domains"
            panels.append(_panel(own, (grouped.methods, case.domains), ("method", "left out"), title))
    return panels


def _matrix_panels(grouped: GroupedSweep, case: Case, matrix: pd.DataFrame) -> list[Panel]:
    panels = []
    for method in grouped.methods:
        own = matrix[matrix["method"] == method].rename(columns={"left_out": "row", "domain": "column"})
        if len(own):
            title = f"{method}: {ACCURACY_AXIS}"
            panels.append(_panel(own, (case.domains, case.domains), ("left out", "tested on"), title, low_is_far=True))
    return panels


def _lost(matrix: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Mean accuracy on a domain in runs that left out another one, minus that in the run that left out the domain."""
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
        number = round(float(value), 5)
        rows.append({"row": row, "column": column, "value": number, "text": text, "share": round(share, 3)})
    kept = [
        tuple(name for name in names if name in set(frame[key]))
        for names, key in zip(order, ("row", "column"), strict=True)
    ]
    return Panel(title, rows, partial(heat, rows=kept[0], columns=kept[1], titles=titles, what=title))


def _decimals(largest: float) -> int:
    """Decimals that give the largest number three digits."""
    return min(6, max(0, 2 - math.floor(math.log10(largest)))) if largest > 0 else 1
