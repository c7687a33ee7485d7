"""Data frames of the charts: records aggregated to curves and matrices, so that a page does not grow with runs."""

from typing import Any

import numpy as np
import pandas as pd

from momentalign.report._cases import Case, GroupedSweep

_MOMENT_GAPS = {
    "moment_gap_1": ("held-out", 1),
    "moment_gap_2": ("held-out", 2),
    "batch_moment_gap_1": ("mini-batch", 1),
    "batch_moment_gap_2": ("mini-batch", 2),
}
"""Rows and order of each metric of gaps between feature moments."""
_NO_TERMS = {"loss", "step_seconds", "memory_gib", "gradient_gap", "hessian_gap", *_MOMENT_GAPS}
"""Step-level metrics that are not penalty terms."""
_MOST_POINTS = 120
"""Of a curve; more cannot be distinguished on a screen."""


def chart_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Convert a frame to chart rows: five digits, None for numbers that are not finite."""
    columns = {}
    for name, column in frame.items():
        values = column.tolist()
        if pd.api.types.is_float_dtype(column):
            values = [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]
        columns[str(name)] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def accuracy_curves(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    """Accuracy over steps of the chosen runs, in percent.

    Returns:
        Columns what ("test" or "training"), test_domain, method, step, mean, low, high, runs; low and high are one
        standard deviation over trials from the mean.
    """
    records = _chosen_records(grouped, case, grouped.sweep.records["metric"] == "accuracy")
    records = records[records["domain"].notna() & records["test_domain"].notna()]
    own = records["domain"].astype(object) == records["test_domain"]
    tested = records[own & (records["split"] == "in")].assign(what="test")
    others = records[~own & (records["split"] == "out")]
    keys = ["run", "method", "test_domain", "step"]
    held_out = others.groupby(keys, observed=True, sort=False)["value"].mean().reset_index().assign(what="training")
    return _curves(pd.concat([tested, held_out]), ["what", "test_domain", "method"], percent=True)


def group_curves(
    grouped: GroupedSweep, case: Case, metric: str = "worst_group_accuracy", split: str = "test"
) -> pd.DataFrame:
    """Accuracy of a whole split over steps, for data sets with groups; columns method, step, mean, low, high, runs."""
    records = grouped.sweep.records
    keep = (records["metric"] == metric) & (records["split"] == split) & records["domain"].isna()
    return _curves(_chosen_records(grouped, case, keep), ["method"], percent=True)


def term_curves(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    """Unweighted penalty terms and the cross-entropy over steps, over trials and test domains.

    Returns:
        Columns term, method, step, mean, low, high, runs; empty if no run has a penalty.
    """
    records = grouped.sweep.records
    terms = _chosen_records(grouped, case, records["domain"].isna() & records["split"].isna())
    term = terms["metric"].astype(object)
    erm = terms["run"].map(case.runs["algorithm"]).astype(object) == "erm"
    term = term.mask(erm & (term == "loss"), "cross_entropy")  # the loss of ERM is its cross-entropy
    terms = terms.assign(term=term)[~term.isin(_NO_TERMS)]
    if set(terms["term"]) <= {"cross_entropy"}:
        terms = terms.iloc[:0]
    return _curves(terms, ["term", "method"])


def gap_curves(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    """Gaps of the features' moments over steps; as in the paper, the band is over test domains.

    Returns:
        Columns sample ("held-out" or "mini-batch"), order (1 or 2), method, step, mean, low, high, runs.
    """
    gaps = _chosen_records(grouped, case, grouped.sweep.records["metric"].isin(_MOMENT_GAPS))
    samples, orders = ([_MOMENT_GAPS[metric][part] for metric in gaps["metric"]] for part in (0, 1))
    gaps = gaps.assign(sample=samples, order=orders)
    # Average over trials first, so that the band is over domains; without domains it is over trials.
    if gaps["test_domain"].nunique() > 1:
        keys = ["sample", "order", "method", "step", "test_domain"]
        gaps = gaps.groupby(keys, observed=True)["value"].mean().reset_index()
    return _curves(gaps, ["sample", "order", "method"])


def run_costs(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    """Seconds per step and memory of all runs of a case, unfinished ones included.

    A run counts with the median of its records without the first, or with its peak memory. Memory on a CPU is left out:
    it is that of a process, which may have trained other runs before.

    Returns:
        Columns device, method, metric ("step_seconds" or "memory_gib"), value (median over runs), low and high (the
        quartiles), runs.
    """
    records = grouped.sweep.records
    records = records[records["run"].isin(case.runs.index)]
    times = records[records["metric"] == "step_seconds"]
    steps = times.groupby("run", observed=True)["step"]
    times = times[(times["step"] > steps.transform("min")) | (steps.transform("nunique") == 1)]  # the first is warm-up
    times = times.groupby("run", observed=True)["value"].median()
    memory = records[records["metric"] == "memory_gib"].groupby("run", observed=True)["value"].max()
    costs = pd.concat({"step_seconds": times, "memory_gib": memory}, names=["metric"]).reset_index()
    costs = costs.astype({"run": object}).join(case.runs[["method", "device"]], on="run")
    costs = costs.fillna({"device": "device not known"})
    costs = costs[(costs["metric"] == "step_seconds") | (costs["device"] != "cpu")]
    values = costs.groupby(["device", "method", "metric"])["value"]
    ends = {"value": values.median(), "low": values.quantile(0.25), "high": values.quantile(0.75)}
    spread = pd.DataFrame({**ends, "runs": values.size()}).reset_index()
    return spread[spread["value"] > 0].reset_index(drop=True)


def _chosen_records(grouped: GroupedSweep, case: Case, keep: pd.Series) -> pd.DataFrame:
    """Records of the chosen runs before they diverged, with method, test domain and trial."""
    records = grouped.sweep.records
    records = records[keep & records["run"].isin(case.chosen["run"])]
    diverged = grouped.sweep.diverged()
    if len(diverged):
        records = records[~(records["step"] >= records["run"].astype(object).map(diverged))]
    about = case.chosen.drop_duplicates("run").set_index("run").loc[records["run"].astype(object)]
    return records.assign(**{name: about[name].to_numpy() for name in ("method", "test_domain")})


def _curves(values: pd.DataFrame, keys: list[str], *, percent: bool = False) -> pd.DataFrame:
    """Mean and one population standard deviation over runs, clipped to the runs' range."""
    grouped = values.groupby([*keys, "step"], observed=True, sort=True)["value"]
    curves = grouped.agg(["mean", "min", "max", "size"]).reset_index()
    deviation = grouped.std(ddof=0).to_numpy()
    factor = 100.0 if percent else 1.0
    curves["low"] = np.maximum(curves["mean"] - deviation, curves["min"]) * factor
    curves["high"] = np.minimum(curves["mean"] + deviation, curves["max"]) * factor
    curves["mean"] *= factor
    steps = np.sort(curves["step"].unique())
    if len(steps) > _MOST_POINTS:
        steps = steps[np.unique(np.linspace(0, len(steps) - 1, _MOST_POINTS).round().astype(int))]
        curves = curves[curves["step"].isin(steps)]
    # Steps at which a curve shows its marker.
    curves["marked"] = curves["step"].isin(steps[:: max(1, len(steps) // 6)])
    curves = curves.drop(columns=["min", "max"]).rename(columns={"size": "runs"})
    return curves[np.isfinite(curves["mean"])].reset_index(drop=True)
