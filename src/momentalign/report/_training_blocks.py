"""What happened inside the runs: penalty terms, worst groups, moments of the features, time and memory."""

import math
from functools import partial
from typing import Any

from momentalign.report._accuracy_blocks import ACCURACY, looks_of, standing
from momentalign.report._blocks import Block, Group, Panel, Tab
from momentalign.report._cases import Case, Ordered
from momentalign.report._charts import bars, curves, decades
from momentalign.report._frames import accuracy_curves, costs, gap_curves, group_curves, rows_of, term_curves
from momentalign.report._theme import Looks

_TERMS = {
    "cross_entropy": "cross-entropy of the batches",
    "gradient": "gradient spread",
    "hessian": "Hessian spread",
    "order_3": "spread of third derivatives",
    "gradient_variance": "Fishr: spread of gradient variances",
    "mean": "CORAL: distance of feature means",
    "covariance": "CORAL: distance of covariances",
    "discrepancy": "MMD: discrepancy",
    "gradient_norm": "IRM: gradient norms",
    "loss_variance": "VREx: variance of losses",
    "all_gradients": "IGA: spread of all gradients",
    "kept": "AND-Mask: share of gradients kept",
    "largest_weight": "GroupDRO: largest weight",
}
"""Terms in the order they are shown; others follow by their names."""
_ORDERS = {1: "first moments: distance of means", 2: "second moments: distance of covariances"}


def term_block(ordered: Ordered) -> Block:
    """Penalty terms and the accuracy that they are meant to raise, over steps (the paper's CelebA figure)."""
    groups, missing = [], []
    looks = looks_of(ordered)
    for case in ordered.cases:
        frame = term_curves(ordered, case)
        if frame.empty:
            missing.append(f"{case.title}: its runs recorded no penalty terms.")
            continue
        panels = [*_goal_panels(ordered, case, looks)]
        for term in sorted(frame["term"].unique(), key=lambda term: (list({**_TERMS, term: ""}).index(term), term)):
            rows = rows_of(frame[frame["term"] == term].drop(columns="term"))
            title = _TERMS.get(term, term)
            y = "cross-entropy" if term == "cross_entropy" else "before its weight"
            draw = partial(curves, looks=looks, y=y, **_scale(rows))
            panels.append(Panel(title, rows, draw))
        groups.append(Group(case.title, panels, looks, standing(case)))
    note = "Terms as logged, before their weights; mean over trials and test domains, band of one standard deviation."
    return Block("terms", "Penalty terms and accuracy", note, [Tab("", groups)] if groups else [], missing)


def gap_block(ordered: Ordered) -> Block:
    """Distances of the features' moments between the training domains over steps (the paper's VLCS figure)."""
    groups, missing = [], []
    looks = looks_of(ordered)
    for case in ordered.cases:
        frame = gap_curves(ordered, case)
        if frame.empty:
            missing.append(f"{case.title}: its runs recorded no moments of features.")
            continue
        panels = []
        for number, title in _ORDERS.items():
            rows = rows_of(frame[frame["order"] == number].drop(columns="order"))
            if rows:
                draw = partial(curves, looks=looks, y="mean over pairs", **_scale(rows))
                panels.append(Panel(title, rows, draw))
        groups.append(Group(case.title, panels, looks, standing(case)))
    note = "Between the training domains' features; the band is one standard deviation over test domains."
    return Block("moments", "Feature moments between domains", note, [Tab("", groups)] if groups else [], missing)


def cost_block(ordered: Ordered) -> Block:
    """Seconds a step and peak memory by method."""
    groups, missing = [], []
    for case in ordered.cases:
        frame = costs(ordered, case)
        if frame.empty:
            missing.append(f"{case.title}: its runs recorded neither time nor memory.")
            continue
        for device, own in frame.groupby("device", sort=False):
            panels = []
            for metric, title in (("step_seconds", "time of a step"), ("memory_gib", "peak memory")):
                rows = rows_of(own[own["metric"] == metric].drop(columns=["device", "metric"]))
                rows.sort(key=lambda row: ordered.methods.index(row["method"]))
                if rows:
                    unit, rows = _unit(metric, rows)
                    panels.append(
                        Panel(title, rows, partial(bars, methods=tuple(row["method"] for row in rows), x=unit))
                    )
            groups.append(Group(f"{case.title}, {device}", panels))
    note = "Median over runs of a run's median step, and of its peak memory; the line spans the middle half of the "
    note += "runs. Runs that shared a machine slowed each other down; 'momentalign bench' measures methods in turn. "
    note += "On a CPU only the memory of a process is known, which did several runs, and none is shown."
    return Block("costs", "Time and memory", note, [Tab("", groups)] if groups else [], missing)


def _goal_panels(ordered: Ordered, case: Case, looks: Looks) -> list[Panel]:
    """Worst-group accuracy where it is recorded, else the mean accuracy over test domains."""
    frame = group_curves(ordered, case)
    title = "worst-group accuracy on the test split"
    if frame.empty:
        found = accuracy_curves(ordered, case)
        found = found[found["what"] == "test"]
        keys = ["method", "step", "marked"]
        frame = found.groupby(keys)[["mean", "low", "high"]].mean().reset_index()
        frame["runs"] = found.groupby(keys)["runs"].sum().to_numpy()
        title = "accuracy on the test domains, mean"
    rows = rows_of(frame)
    return [Panel(title, rows, partial(curves, looks=looks, y=ACCURACY))] if rows else []


def _scale(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Logarithmic where numbers span decades; a kind that bears zeros where there are some."""
    positive = [row["mean"] for row in rows if row["mean"] > 0]
    tiny = bool(positive) and max(positive) < 1e-3
    if not positive or max(positive) < 20 * min(positive):
        return {"scale": "linear", "tiny": tiny}
    if min(row["low"] for row in rows) > 0:
        ends = [row[key] for row in rows for key in ("low", "high")]
        return {"scale": "log", "powers": decades(ends), "tiny": tiny or min(positive) < 1e-3}
    return {"scale": "symlog", "constant": 10.0 ** math.floor(math.log10(min(positive))), "tiny": tiny}


def _unit(metric: str, rows: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Units in which the numbers have digits before the point, and the numbers as text."""
    largest = max(row["value"] for row in rows)
    unit, factor = ("s", 1.0) if metric == "step_seconds" else ("GiB", 1.0)
    if metric == "step_seconds" and largest < 1:
        unit, factor = "ms", 1000.0
    elif metric == "memory_gib" and largest < 1:
        unit, factor = "MiB", 1024.0
    scaled = [{**row, **{key: row[key] * factor for key in ("value", "low", "high")}} for row in rows]
    return unit, [{**row, "text": f"{row['value']:.3g} {unit}", "room": 1.3 * row["high"]} for row in scaled]
