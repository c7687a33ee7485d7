"""Numbers behind the charts: aggregated here, so that the page carries curves and not records."""

from typing import Any

import numpy as np
import pandas as pd

from momentalign.report._cases import Case, Ordered

STEP_LEVEL = {"loss", "moment_gap_1", "moment_gap_2", "step_seconds", "memory_gib"}
"""Step-level metrics that are no penalty terms."""
_LONGEST = 120
"""Points of a curve; more cannot be told apart on a screen."""


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame as rows for a chart: five digits, and None for what is no number."""
    columns = {}
    for name, column in frame.items():
        values = column.tolist()
        if pd.api.types.is_float_dtype(column):
            values = [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]
        columns[str(name)] = values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def accuracy_curves(ordered: Ordered, case: Case) -> pd.DataFrame:
    """Accuracy over steps of the runs that stand for their method.

    Args:
        ordered: The sweep.
        case: One of its cases.

    Returns:
        Columns what ("test" or "training"), test_domain, method, step, mean, low, high, runs; one standard deviation
        over trials around the mean. Accuracies in percent.
    """
    records = _of(ordered, case, ordered.sweep.records["metric"] == "accuracy")
    records = records[records["domain"].notna() & records["test_domain"].notna()]
    own = records["domain"].astype(object) == records["test_domain"]
    tested = records[own & (records["split"] == "in")].assign(what="test")
    others = records[~own & (records["split"] == "out")]
    keys = ["run", "method", "test_domain", "step"]
    held_out = others.groupby(keys, observed=True, sort=False)["value"].mean().reset_index().assign(what="training")
    return _curves(pd.concat([tested, held_out]), ["what", "test_domain", "method"], percent=True)


def group_curves(
    ordered: Ordered, case: Case, metric: str = "worst_group_accuracy", split: str = "test"
) -> pd.DataFrame:
    """Accuracy over all rows of a split over steps, of data sets with groups.

    Args:
        ordered: The sweep.
        case: One of its cases.
        metric: "worst_group_accuracy" or "accuracy".
        split: "test" or "val".

    Returns:
        Columns as of :func:`accuracy_curves`, less the first two.
    """
    records = ordered.sweep.records
    found = _of(ordered, case, (records["metric"] == metric) & (records["split"] == split) & records["domain"].isna())
    return _curves(found, ["method"], percent=True)


def term_curves(ordered: Ordered, case: Case) -> pd.DataFrame:
    """Penalty terms over steps, unweighted, over trials and test domains, and the cross-entropy beside them.

    Args:
        ordered: The sweep.
        case: One of its cases.

    Returns:
        Columns term, method, step, mean, low, high, runs; nothing where no run has a penalty.
    """
    records = ordered.sweep.records
    found = _of(ordered, case, records["domain"].isna() & records["split"].isna())
    term = found["metric"].astype(object)
    plain = found["run"].map(case.runs["algorithm"]).astype(object) == "erm"
    term = term.mask(plain & (term == "loss"), "cross_entropy")  # all that ERM minimises
    found = found.assign(term=term)[~term.isin(STEP_LEVEL)]
    if set(found["term"]) <= {"cross_entropy"}:
        found = found.iloc[:0]
    return _curves(found, ["term", "method"])


def gap_curves(ordered: Ordered, case: Case) -> pd.DataFrame:
    """Gaps of the features' moments over steps, as the paper draws them: one standard deviation over test domains.

    Args:
        ordered: The sweep.
        case: One of its cases.

    Returns:
        Columns order (1 or 2), method, step, mean, low, high, runs.
    """
    records = ordered.sweep.records
    found = _of(ordered, case, records["metric"].isin(["moment_gap_1", "moment_gap_2"]))
    found = found.assign(order=found["metric"].astype(object).str[-1].astype(int))
    keys = ["order", "method", "step"]
    # Trials first, then domains: the band is over domains, as in the paper; without them it is over trials.
    if found["test_domain"].nunique() > 1:
        found = found.groupby([*keys, "test_domain"], observed=True)["value"].mean().reset_index()
    return _curves(found, ["order", "method"])


def last_gaps(ordered: Ordered, case: Case) -> pd.DataFrame:
    """Mean gap of the training domains' moments at the last record: order, method, test_domain, value."""
    records = ordered.sweep.records
    found = _of(ordered, case, records["metric"].isin(["moment_gap_1", "moment_gap_2"]))
    found = found[found["test_domain"].notna()].assign(order=found["metric"].astype(object).str[-1])
    last = found[found["step"] == found.groupby("run", observed=True)["step"].transform("max")]
    return last.groupby(["order", "method", "test_domain"], observed=True)["value"].mean().reset_index()


def costs(ordered: Ordered, case: Case) -> pd.DataFrame:
    """Seconds a step and memory of all runs of a case, unfinished ones too.

    Args:
        ordered: The sweep.
        case: One of its cases.

    Returns:
        Columns device, method, metric ("step_seconds" or "memory_gib"), value (median over runs), low and high (between
        them the middle half of the runs), runs. A run counts with its median record, the first left out, or its peak
        memory; on a CPU that is the process's, which did other runs before, and is left out.
    """
    records = ordered.sweep.records
    records = records[records["metric"].isin(["step_seconds", "memory_gib"]) & records["run"].isin(case.runs.index)]
    first = records.groupby("run", observed=True)["step"].transform("min")
    several = records.groupby("run", observed=True)["step"].transform("nunique") > 1
    # The first record has the warm-up in it.
    records = records[~several | (records["step"] > first) | (records["metric"] == "memory_gib")]
    grouped = records.groupby(["run", "metric"], observed=True)["value"]
    found = grouped.agg(["median", "max"]).reset_index()
    memory = (found["metric"] == "memory_gib").to_numpy()
    value = np.where(memory, found["max"], found["median"])
    run = found["run"].astype(object)
    about = case.runs.loc[run, ["method", "device"]].reset_index(drop=True)
    found = found.assign(method=about["method"], device=about["device"].fillna("device not known"), value=value)
    found = found[~(memory & (found["device"] == "cpu").to_numpy())]
    keys = ["device", "method", "metric"]
    spread = found.groupby(keys, observed=True, sort=False)["value"]
    spread = pd.DataFrame(
        {"value": spread.median(), "low": spread.quantile(0.25), "high": spread.quantile(0.75), "runs": spread.size()}
    )
    spread = spread.reset_index().assign(metric=lambda frame: frame["metric"].astype(object))
    return spread[spread["value"] > 0].reset_index(drop=True)


def accuracy_matrix(ordered: Ordered, case: Case) -> pd.DataFrame:
    """Accuracy on every domain by the domain that was left out, at the runs' last records.

    Args:
        ordered: The sweep.
        case: One of its cases.

    Returns:
        Columns method, left_out, domain, value: on the left-out domain's "in" split, on the others' "out" splits; mean
        over trials, in percent.
    """
    records = _of(ordered, case, ordered.sweep.records["metric"] == "accuracy")
    records = records[records["domain"].notna() & records["test_domain"].notna()]
    records = records[records["step"] == records.groupby("run", observed=True)["step"].transform("max")]
    own = records["domain"].astype(object) == records["test_domain"]
    records = records[records["split"].astype(object) == np.where(own, "in", "out")]
    keys = ["method", "test_domain", "domain"]
    found = records.groupby(keys, observed=True)["value"].mean().reset_index()
    found = found.assign(domain=found["domain"].astype(object), value=found["value"] * 100)
    return found.rename(columns={"test_domain": "left_out"})


def partner_matrix(ordered: Ordered, case: Case) -> pd.DataFrame:
    """What leaving a second domain out costs the first, from runs with two test domains.

    Args:
        ordered: The sweep.
        case: One of its cases.

    Returns:
        Columns domain, other, value: accuracy on `domain` with it alone left out, less that with `other` left out too;
        last records, mean over all methods, settings and trials that have both, in points.
    """
    finished = case.runs[(case.runs["status"] == "finished") & ~case.runs.index.isin(ordered.sweep.diverged().index)]
    records = ordered.sweep.records
    keep = (records["metric"] == "accuracy") & (records["split"] == "in") & records["run"].isin(finished.index)
    records = records[keep & records["domain"].notna()]
    records = records[records["step"] == records.groupby("run", observed=True)["step"].transform("max")]
    about = finished.loc[records["run"].astype(object)]
    left_out = about["test_domains"].to_numpy()
    domain = records["domain"].astype(object).to_numpy()
    other = [next((name for name in pair if name != one), "") for pair, one in zip(left_out, domain, strict=True)]
    inside = [one in pair and len(pair) < 3 for pair, one in zip(left_out, domain, strict=True)]
    keys = ["algorithm", "trial", "hparams_seed"]
    found = about[keys].assign(domain=domain, other=other, value=records["value"].to_numpy())
    found = found[np.array(inside, dtype=bool)]
    alone = found[found["other"] == ""].drop(columns="other")
    both = found[found["other"] != ""].merge(alone, on=[*keys, "domain"], suffixes=("", "_alone"))
    both = both.assign(value=(both["value_alone"] - both["value"]) * 100)
    return both.groupby(["domain", "other"])["value"].mean().reset_index()


def _of(ordered: Ordered, case: Case, keep: pd.Series) -> pd.DataFrame:
    """Records of the chosen runs of a case that count, with method, test domain and trial."""
    records = ordered.sweep.records
    records = records[keep & records["run"].isin(case.chosen["run"])]
    ends = ordered.sweep.diverged()
    if len(ends):
        records = records[~(records["step"] >= records["run"].astype(object).map(ends))]
    about = case.chosen.drop_duplicates("run").set_index("run").loc[records["run"].astype(object)]
    columns = {name: about[name].to_numpy() for name in ("method", "test_domain", "trial")}
    return records.assign(**columns)


def _curves(values: pd.DataFrame, keys: list[str], *, percent: bool = False) -> pd.DataFrame:
    """Mean and one standard deviation over runs (population, as in the tables); the band ends where the runs do."""
    grouped = values.groupby([*keys, "step"], observed=True, sort=True)["value"]
    found = grouped.agg(["mean", "min", "max", "size"]).reset_index()
    deviation = grouped.std(ddof=0).to_numpy()
    factor = 100.0 if percent else 1.0
    found["low"] = np.maximum(found["mean"] - deviation, found["min"]) * factor
    found["high"] = np.minimum(found["mean"] + deviation, found["max"]) * factor
    found["mean"] *= factor
    steps = np.sort(found["step"].unique())
    if len(steps) > _LONGEST:
        kept = steps[np.unique(np.linspace(0, len(steps) - 1, _LONGEST).round().astype(int))]
        found = found[found["step"].isin(kept)]
        steps = kept
    # A few places where a curve shows its shape.
    found["marked"] = found["step"].isin(steps[:: max(1, len(steps) // 6)])
    found = found.drop(columns=["min", "max"]).rename(columns={"size": "runs"})
    return found[np.isfinite(found["mean"])].reset_index(drop=True)
