"""Data frames of the charts: records aggregated to curves and matrices, so that a page does not grow with runs."""

from typing import Any

import numpy as np
import pandas as pd

from momentalign.report._cases import Case, GroupedSweep
from momentalign.runs import RunState

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
    records = _domain_accuracies(grouped, case)
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
    gaps = _moment_gaps(grouped, case)
    # Average over trials first, so that the band is over domains; without domains it is over trials.
    if gaps["test_domain"].nunique() > 1:
        keys = ["sample", "order", "method", "step", "test_domain"]
        gaps = gaps.groupby(keys, observed=True)["value"].mean().reset_index()
    return _curves(gaps, ["sample", "order", "method"])


def last_gaps(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    """Mean moment gap of the training domains' held-out rows at the last record: order, method, test_domain, value."""
    gaps = _moment_gaps(grouped, case)
    gaps = gaps[gaps["sample"] == "held-out"]
    last = _last_records(gaps[gaps["test_domain"].notna()])
    return last.groupby(["order", "method", "test_domain"], observed=True)["value"].mean().reset_index()


def run_costs(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    """Seconds per step and memory of all runs of a case, unfinished ones included.

    A run counts with the median of its records without the first, or with its peak memory. Memory on a CPU is left out:
    it is that of a process, which may have trained other runs before.

    Returns:
        Columns device, method, metric ("step_seconds" or "memory_gib"), value (median over runs), low and high (the
        quartiles), runs.
    """
    records = grouped.sweep.records
    records = records[records["metric"].isin(["step_seconds", "memory_gib"]) & records["run"].isin(case.runs.index)]
    steps = records.groupby("run", observed=True)["step"]
    warm_up = (records["step"] == steps.transform("min")) & (steps.transform("nunique") > 1)
    records = records[~warm_up | (records["metric"] == "memory_gib")]
    costs = records.groupby(["run", "metric"], observed=True)["value"].agg(["median", "max"]).reset_index()
    memory = (costs["metric"] == "memory_gib").to_numpy()
    value = np.where(memory, costs["max"], costs["median"])
    about = case.runs.loc[costs["run"].astype(object), ["method", "device"]].reset_index(drop=True)
    costs = costs.assign(method=about["method"], device=about["device"].fillna("device not known"), value=value)
    costs = costs[~(memory & (costs["device"] == "cpu").to_numpy())]
    values = costs.groupby(["device", "method", "metric"], observed=True, sort=False)["value"]
    spread = pd.DataFrame(
        {"value": values.median(), "low": values.quantile(0.25), "high": values.quantile(0.75), "runs": values.size()}
    )
    spread = spread.reset_index().assign(metric=lambda frame: frame["metric"].astype(object))
    return spread[spread["value"] > 0].reset_index(drop=True)


def accuracy_matrix(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    """Accuracy on every domain by test domain, at the last records; mean over trials, in percent.

    Returns:
        Columns method, left_out, domain, value: on the left-out domain's "in" split, on the others' "out" splits.
    """
    records = _last_records(_domain_accuracies(grouped, case))
    own = records["domain"].astype(object) == records["test_domain"]
    records = records[records["split"].astype(object) == np.where(own, "in", "out")]
    keys = ["method", "test_domain", "domain"]
    matrix = records.groupby(keys, observed=True)["value"].mean().reset_index()
    matrix = matrix.assign(domain=matrix["domain"].astype(object), value=matrix["value"] * 100)
    return matrix.rename(columns={"test_domain": "left_out"})


def partner_matrix(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    """Accuracy that a domain loses when a second one is left out too, from runs with two test domains.

    Returns:
        Columns domain, other, value: accuracy on `domain` with it alone left out minus that with `other` left out too;
        last records, mean over all methods, hyper-parameters and trials that have both, in points.
    """
    diverged = case.runs.index.isin(grouped.sweep.diverged().index)
    finished = case.runs[(case.runs["status"] == RunState.FINISHED) & ~diverged]
    records = grouped.sweep.records
    keep = (records["metric"] == "accuracy") & (records["split"] == "in") & records["run"].isin(finished.index)
    records = _last_records(records[keep & records["domain"].notna()])
    about = finished.loc[records["run"].astype(object)]
    test_domains = about["test_domains"].to_numpy()
    domain = records["domain"].astype(object).to_numpy()
    other = [next((name for name in pair if name != one), "") for pair, one in zip(test_domains, domain, strict=True)]
    tested = [one in pair and len(pair) < 3 for pair, one in zip(test_domains, domain, strict=True)]
    keys = ["algorithm", "trial", "hparams_seed"]
    values = about[keys].assign(domain=domain, other=other, value=records["value"].to_numpy())
    values = values[np.array(tested, dtype=bool)]
    alone = values[values["other"] == ""].drop(columns="other")
    both = values[values["other"] != ""].merge(alone, on=[*keys, "domain"], suffixes=("", "_alone"))
    both = both.assign(value=(both["value_alone"] - both["value"]) * 100)
    return both.groupby(["domain", "other"])["value"].mean().reset_index()


def _domain_accuracies(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    records = _chosen_records(grouped, case, grouped.sweep.records["metric"] == "accuracy")
    return records[records["domain"].notna() & records["test_domain"].notna()]


def _moment_gaps(grouped: GroupedSweep, case: Case) -> pd.DataFrame:
    gaps = _chosen_records(grouped, case, grouped.sweep.records["metric"].isin(_MOMENT_GAPS))
    samples, orders = ([_MOMENT_GAPS[metric][part] for metric in gaps["metric"]] for part in (0, 1))
    return gaps.assign(sample=samples, order=orders)


def _last_records(records: pd.DataFrame) -> pd.DataFrame:
    return records[records["step"] == records.groupby("run", observed=True)["step"].transform("max")]


def _chosen_records(grouped: GroupedSweep, case: Case, keep: pd.Series) -> pd.DataFrame:
    """Records of the chosen runs before they diverged, with method, test domain and trial."""
    records = grouped.sweep.records
    records = records[keep & records["run"].isin(case.chosen["run"])]
    diverged = grouped.sweep.diverged()
    if len(diverged):
        records = records[~(records["step"] >= records["run"].astype(object).map(diverged))]
    about = case.chosen.drop_duplicates("run").set_index("run").loc[records["run"].astype(object)]
    return records.assign(**{name: about[name].to_numpy() for name in ("method", "test_domain", "trial")})


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
