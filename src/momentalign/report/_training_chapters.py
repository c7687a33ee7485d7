"""Chapters on training: penalty terms, moments of the features, time and memory."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from momentalign.report._accuracy_chapters import accuracy_panel, describe_selection
from momentalign.report._cases import Case, GroupedSweep
from momentalign.report._chapters import Chapter, Panel, PanelGroup, Tab
from momentalign.report._charts import bars, curves, decades
from momentalign.report._frames import accuracy_curves, chart_rows, gap_curves, group_curves, run_costs, term_curves
from momentalign.report._names import term_label, term_order

_GAP_PANELS = {
    ("held-out", 1): "first moments: distance of means",
    ("held-out", 2): "second moments: distance of covariances",
    ("mini-batch", 1): "first moments of mini-batches in training mode",
    ("mini-batch", 2): "second moments of mini-batches in training mode",
}
"""Titles by the rows that moments are taken of, and their order."""


def term_chapter(grouped: GroupedSweep) -> Chapter:
    """Penalty terms and accuracy over steps (the paper's CelebA figure)."""

    def panel_groups(case: Case, frame: pd.DataFrame) -> list[PanelGroup]:
        panels = _accuracy_panels(grouped, case)
        for term in sorted(frame["term"].unique(), key=term_order):
            rows = chart_rows(frame[frame["term"] == term].drop(columns="term"))
            y = "cross-entropy" if term == "cross_entropy" else "unweighted"
            panels.append(_curve_panel(grouped, term_label(term), rows, y))
        return [PanelGroup(case.title, panels, grouped.styles, describe_selection(case))]

    note = "Unweighted terms; mean over trials and test domains, the band is one standard deviation."
    parts = _tabs_by_case(grouped, term_curves, panel_groups, "no penalty terms recorded")
    return Chapter("terms", "Penalty terms and accuracy", note, *parts)


def gap_chapter(grouped: GroupedSweep) -> Chapter:
    """Distances of feature moments between the training domains over steps (the paper's VLCS figure)."""

    def panel_groups(case: Case, frame: pd.DataFrame) -> list[PanelGroup]:
        panels = []
        for (sample, order), title in _GAP_PANELS.items():
            own = frame[(frame["sample"] == sample) & (frame["order"] == order)]
            if len(own):
                rows = chart_rows(own.drop(columns=["sample", "order"]))
                panels.append(_curve_panel(grouped, title, rows, "mean over pairs"))
        return [PanelGroup(case.title, panels, grouped.styles, describe_selection(case))]

    note = (
        "Between the training domains' features; the band is one standard deviation over test domains. First held-out "
        "rows in evaluation mode; then the mini-batches of the step in training mode, as in the paper's figure, whose "
        "few rows add noise to every distance."
    )
    parts = _tabs_by_case(grouped, gap_curves, panel_groups, "no feature moments recorded")
    return Chapter("moments", "Feature moments between domains", note, *parts)


def cost_chapter(grouped: GroupedSweep) -> Chapter:
    """Seconds per step and peak memory by method."""

    def panel_groups(case: Case, frame: pd.DataFrame) -> list[PanelGroup]:
        groups = []
        for device, own in frame.groupby("device", sort=False):
            panels = []
            for metric, title in (("step_seconds", "time per step"), ("memory_gib", "peak memory")):
                rows = chart_rows(own[own["metric"] == metric].drop(columns=["device", "metric"]))
                rows.sort(key=lambda row: grouped.methods.index(row["method"]))
                if rows:
                    unit, rows = _unit(metric, rows)
                    methods = tuple(row["method"] for row in rows)
                    panels.append(Panel(title, rows, partial(bars, methods=methods, x=unit)))
            groups.append(PanelGroup(f"{case.title}, {device}", panels))
        return groups

    note = (
        "Median over runs of the median step time and of the peak memory; lines show the interquartile range. Runs "
        "that shared a machine slowed each other down; 'momentalign bench' measures methods one by one. Memory on a "
        "CPU is not shown: only that of the process is known, which may train several runs."
    )
    parts = _tabs_by_case(grouped, run_costs, panel_groups, "no time or memory recorded")
    return Chapter("costs", "Time and memory", note, *parts)


def _tabs_by_case(
    grouped: GroupedSweep,
    frame_of: Callable[[GroupedSweep, Case], pd.DataFrame],
    panel_groups: Callable[[Case, pd.DataFrame], list[PanelGroup]],
    missing: str,
) -> tuple[list[Tab], list[str]]:
    """One tab with the panels of all cases, and a note for each case without data."""
    frames = [(case, frame_of(grouped, case)) for case in grouped.cases]
    groups = [group for case, frame in frames if not frame.empty for group in panel_groups(case, frame)]
    notes = [f"{case.title}: {missing}." for case, frame in frames if frame.empty]
    return [Tab("", groups)] if groups else [], notes


def _curve_panel(grouped: GroupedSweep, title: str, rows: list[dict[str, Any]], y: str) -> Panel:
    return Panel(title, rows, partial(curves, styles=grouped.styles, y=y, **_scale(rows)))


def _accuracy_panels(grouped: GroupedSweep, case: Case) -> list[Panel]:
    """Worst-group accuracy where it is recorded, else the mean accuracy over test domains."""
    frame = group_curves(grouped, case)
    title = "worst-group accuracy on the test split"
    if frame.empty:
        curve = accuracy_curves(grouped, case)
        curve = curve[curve["what"] == "test"]
        keys = ["method", "step", "marked"]
        frame = curve.groupby(keys)[["mean", "low", "high"]].mean().reset_index()
        frame["runs"] = curve.groupby(keys)["runs"].sum().to_numpy()
        title = "accuracy on the test domains, mean"
    rows = chart_rows(frame)
    return [accuracy_panel(grouped, title, rows)] if rows else []


def _scale(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Logarithmic for numbers that span decades, symlog if some are zero, else linear."""
    positive = [row["mean"] for row in rows if row["mean"] > 0]
    tiny = bool(positive) and max(positive) < 1e-3
    if not positive or max(positive) < 20 * min(positive):
        return {"scale": "linear", "tiny": tiny}
    if min(row["low"] for row in rows) > 0:
        ends = [row[key] for row in rows for key in ("low", "high")]
        return {"scale": "log", "powers": decades(ends), "tiny": tiny or min(positive) < 1e-3}
    return {"scale": "symlog", "constant": 10.0 ** math.floor(math.log10(min(positive))), "tiny": tiny}


def _unit(metric: str, rows: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """A unit that makes the largest number at least 1, and the rows in that unit."""
    small = max(row["value"] for row in rows) < 1
    if metric == "step_seconds":
        unit, factor = ("ms", 1000.0) if small else ("s", 1.0)
    else:
        unit, factor = ("MiB", 1024.0) if small else ("GiB", 1.0)
    scaled = [{**row, **{key: row[key] * factor for key in ("value", "low", "high")}} for row in rows]
    return unit, [{**row, "text": f"{row['value']:.3g} {unit}", "room": 1.3 * row["high"]} for row in scaled]
