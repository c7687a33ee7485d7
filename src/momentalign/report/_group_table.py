"""Section of a table for data with groups: worst group with its interval, averages, other measures."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd

from momentalign._format import pluralize
from momentalign._worst_group import GROUP_MEASURES, worst_group_interval
from momentalign.published import AVERAGE, WORST_GROUP
from momentalign.report._names import algorithm_label, algorithm_order, list_algorithms
from momentalign.report._published_rows import PUBLISHED_PROBING, published_for_probes, with_published
from momentalign.report._sections import (
    RULE_NOTES,
    SectionFrames,
    SectionKey,
    diverged_note,
    error_note,
    mark_notes,
    plain_note,
    safe_note,
    trial_cell,
)
from momentalign.report._table import ResultCell, ResultRow, TableSection
from momentalign.selection import Sweep

INTERVAL = "95% interval"
_SPLIT = "test"
_NOTES = {
    INTERVAL: "95% interval: of the worst group, for the test rows; it allows for the worst group being a minimum. Its "
    "ends are averaged over trials.",
    AVERAGE: "average: over all rows.",
    "weighted average": "weighted average: of the groups, by their shares of the training rows.",
    "balanced accuracy": "balanced accuracy: mean over classes.",
    "worst-group F1": "worst-group F1: least of the groups' means over classes.",
    "calibration error": "calibration error: 15 bins of equal width.",
}
ACCURACIES = (WORST_GROUP, AVERAGE, "weighted average", "balanced accuracy", "worst class")
"""Columns that are accuracies, which a chart can show on one axis."""


def group_measures(sweep: Sweep, chosen: pd.DataFrame) -> pd.DataFrame:
    """Measures of the chosen runs on the test split, a column per recorded measure, named by its label.

    Columns `low` and `high` are the ends of the worst group's interval; NaN where a run did not record the rows of its
    groups. The index is that of `chosen`.
    """
    records = sweep.records
    keep = records["run"].isin(chosen["run"]) & (records["split"] == _SPLIT) & records["domain"].isna()
    records = records[keep & records["metric"].isin([*GROUP_MEASURES, "group_accuracy"])]
    own = records.astype({"run": object}).merge(chosen[["run", "step"]], on=["run", "step"])
    grouped = own["group"].notna()
    wide = own[~grouped].pivot_table(index="run", columns="metric", values="value", observed=True)
    measures = pd.DataFrame({label: wide.get(name) for name, label in GROUP_MEASURES.items()}, index=wide.index)
    by_run = dict(list(own[grouped].groupby("run")))
    ends = {run: _interval(by_run.get(run), sweep.runs.at[run, "group_rows"].get(_SPLIT, {})) for run in chosen["run"]}
    measures = measures.reindex(chosen["run"]).set_axis(chosen.index)
    low, high = (np.array([ends[run][end] for run in chosen["run"]], dtype=float) for end in (0, 1))
    return measures.dropna(axis="columns", how="all").assign(low=low, high=high)


def group_section(
    key: SectionKey, rule: str, frames: SectionFrames, begun: pd.DataFrame, measures: pd.DataFrame
) -> TableSection:
    """The section of a data set with groups; `measures` come from :func:`group_measures`."""
    chosen = frames.chosen
    trials = int(chosen.groupby("algorithm").size().max()) if len(chosen) else 0
    recorded = [label for label in GROUP_MEASURES.values() if label in measures]
    columns = list(dict.fromkeys([WORST_GROUP, AVERAGE, *recorded]))
    known = bool(measures["low"].notna().any())
    if known:
        columns.insert(1, INTERVAL)
    rows = []
    for algorithm in list_algorithms(frames.runs):
        own = measures[(chosen["algorithm"] == algorithm).to_numpy()]
        cells = tuple(_cell(column, own, trials) for column in columns)
        rows.append(ResultRow(algorithm, algorithm_label(algorithm), False, cells))
    tried = {
        (row.algorithm, row.hparams_seed)
        for frame in (frames.candidates, frames.set_aside)
        for row in frame.itertuples()
    }
    sets = Counter(algorithm for algorithm, _ in tried)
    search = ", ".join(f"{algorithm_label(name)} {sets[name]}" for name in sorted(sets, key=algorithm_order))
    over = error_note(trials, population=False)
    notes = [RULE_NOTES[rule], f"Sets of hyper-parameters: {search}. {over}".rstrip()]
    notes.append(" ".join(_NOTES[column] for column in columns if column in _NOTES))
    published, identified = published_for_probes(key.dataset, key.label, begun) if key.setting == "probe" else ({}, [])
    rows, source = with_published(rows, columns, published, PUBLISHED_PROBING, decimals=2)
    notes += [*plain_note(rows), *safe_note(begun), *mark_notes(rows, pluralize(trials, "trial"))]
    notes += [*diverged_note(frames.diverged), *source, *identified]
    title = f"{key.title}: test accuracy in %, of the worst group and on average, {rule} selection"
    return TableSection(*key, title, tuple(notes), tuple(columns), tuple(columns), tuple(rows))


def _interval(accuracies: pd.DataFrame | None, rows: dict[str, int]) -> tuple[float, float]:
    """Interval of one run's worst group; NaN if the rows of a recorded group are not known."""
    if accuracies is None or not set(accuracies["group"]) <= set(rows):
        return np.nan, np.nan
    sizes = np.array([rows[group] for group in accuracies["group"]])
    return worst_group_interval(np.rint(accuracies["value"].to_numpy() * sizes), sizes)


def _cell(column: str, own: pd.DataFrame, trials: int) -> ResultCell:
    """A measure's mean over trials, or the interval; blank if the selected runs did not record it."""
    ends = own[["low", "high"]].dropna()
    low, high = (100 * float(ends[end].mean()) if len(ends) else None for end in ("low", "high"))
    if column == INTERVAL:
        return ResultCell(None, low=low, high=high, expected=own.empty, complete=len(own) == trials)
    if not own.empty and (column not in own or own[column].isna().all()):
        return ResultCell(None, expected=False)
    values = own[column].dropna() if column in own else pd.Series(dtype=float)
    decimals = 2 if column in (WORST_GROUP, AVERAGE) else 1  # as published
    cell = trial_cell(values, len(values) == trials, ddof=1, decimals=decimals)
    return replace(cell, low=low, high=high) if column == WORST_GROUP else cell
