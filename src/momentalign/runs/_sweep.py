"""Runs and their records as two data frames, with one run for each cell of a table."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from momentalign._format import join_first
from momentalign.runs._config import CELL, cell_of, differing_keys
from momentalign.runs._planned import PLANNED_COLUMNS
from momentalign.runs._records import RecordRow
from momentalign.runs._run_json import RunState

if TYPE_CHECKING:
    import pandas as pd

_PREFERENCE = {RunState.FINISHED: 2, RunState.RUNNING: 1}


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs and their records.

    Args:
        runs: One row per run, in the order of the folders' names; the index `run` is the folder's name. Columns:
            dataset, algorithm, test_domains (tuple), trial, hparams_seed, hparams (dict), steps, encoder, setting,
            status (:class:`RunState`), error, diverged_at (step, of a run that divergence ended), domains (tuple, in
            the data set's order), device, started, finished, hash, folder, config (dict), num_classes, classes
            (tuple), versions (dict), data (stamp), features (of a probe: dict with dataset and encoder, if known),
            rows (numbers of rows by domain and split) and group_rows (by split and group); empty if the run did not
            record them.
        records: One row per number: run, step, domain, split, metric, group, value. All but step and value are
            categorical, and missing where they do not apply.
        problems: What was left out or is suspicious, one line each.
        planned: Runs that a sweep has not begun, with the columns of `runs` that identify them.
    """

    runs: pd.DataFrame
    records: pd.DataFrame
    problems: list[str] = field(default_factory=list)
    planned: pd.DataFrame = field(default_factory=lambda: planned_frame({}))

    def to_frame(self) -> pd.DataFrame:
        """One row per run, with its last record.

        Returns:
            The index is `run`. Columns: dataset, setting, algorithm, test_domain (several joined by ", "; empty without
            one), trial, hparams_seed, status, seconds (from start to end, of a finished run), step (of the last
            record), loss, validation, test, and `hparams.NAME` for each hyper-parameter. `validation` is the mean
            accuracy on the training domains' "out" splits, `test` the mean on the test domains' "in" splits; for data
            with groups, the worst group's accuracy on "val" and "test". Accuracies are in 0 to 1, NaN where a run has
            none or has diverged. This is what was recorded last; :func:`momentalign.selection.select` chooses.
        """
        import pandas as pd

        runs = self.runs
        frame = runs[["dataset", "setting", "algorithm", "trial", "hparams_seed"]].copy()
        frame.insert(3, "test_domain", [", ".join(names) for names in runs["test_domains"]])
        frame["status"] = [str(status) for status in runs["status"]]
        frame["seconds"] = self.seconds()
        last = self.records[self.records["step"] == self.records.groupby("run", observed=True)["step"].transform("max")]
        last = last.astype({"run": object})
        frame["step"] = last.groupby("run")["step"].max().reindex(runs.index).astype("Int64")
        loss = last[(last["metric"] == "loss") & last["domain"].isna() & last["split"].isna()]
        frame["loss"] = loss.groupby("run")["value"].last().reindex(runs.index)
        for name, values in _last_accuracies(last, runs).items():
            frame[name] = values.where(~runs.index.isin(self.diverged().index))
        names = dict.fromkeys(name for hparams in runs["hparams"] for name in hparams)
        values = {f"hparams.{name}": [hparams.get(name) for hparams in runs["hparams"]] for name in names}
        return pd.concat([frame, pd.DataFrame(values, index=runs.index).infer_objects()], axis=1)

    def seconds(self) -> pd.Series:
        """Time from start to end of each run, pauses included; NaN where it is not known."""
        import pandas as pd

        start, end = (
            pd.to_datetime(self.runs[name], errors="coerce", utc=True, format="ISO8601")
            for name in ("started", "finished")
        )
        return (end - start).dt.total_seconds()

    def finished(self) -> pd.DataFrame:
        """The finished runs. Only these are selected."""
        return self.runs[self.runs["status"] == RunState.FINISHED]

    def diverged(self) -> pd.Series:
        """The first step of each diverged run whose loss is not finite; accuracies from there on do not count."""
        import pandas as pd

        losses = self.records[~np.isfinite(self.records["value"].to_numpy())]
        losses = losses[(losses["metric"] == "loss") & losses["domain"].isna() & losses["split"].isna()]
        recorded = losses.groupby("run", observed=True)["step"].min()
        steps = dict(self.ended_by_divergence()) | {run: int(step) for run, step in recorded.items()}
        steps = {run: steps[run] for run in self.runs.index if run in steps}
        return pd.Series(list(steps.values()), index=pd.Index(list(steps), name="run", dtype="object"), dtype="int64")

    def ended_by_divergence(self) -> pd.Series:
        """The step at which divergence ended runs: probes by SGD fail there without recording the loss."""
        steps = self.runs.loc[self.runs["status"] == RunState.FAILED, "diverged_at"]
        return steps[steps.notna()].astype("int64")


def _last_accuracies(last: pd.DataFrame, runs: pd.DataFrame) -> dict[str, pd.Series]:
    """`validation` and `test` of each run, from the records of its last step."""
    tested = [domain in runs.at[run, "test_domains"] for run, domain in zip(last["run"], last["domain"], strict=True)]
    plain = (last["metric"] == "accuracy") & last["domain"].notna()
    worst = (last["metric"] == "worst_group_accuracy") & last["domain"].isna()
    held_out = {
        "validation": ("out", "val", ~np.array(tested, dtype=bool)),
        "test": ("in", "test", np.array(tested, dtype=bool)),
    }
    found = {}
    for name, (split, group_split, wanted) in held_out.items():
        by_group = last[worst & (last["split"] == group_split)].groupby("run")["value"].mean()
        by_domain = last[plain & (last["split"] == split) & wanted].groupby("run")["value"].mean()
        found[name] = by_group.combine_first(by_domain).reindex(runs.index).astype(float)
    return found


def records_frame(records: Mapping[str, Sequence[RecordRow]]) -> pd.DataFrame:
    """One row per record, by the names of all runs."""
    import pandas as pd

    runs = np.repeat(np.arange(len(records)), [len(rows) for rows in records.values()])
    names = ("step", "domain", "split", "metric", "group", "value")
    columns = list(zip(*chain(*records.values()), strict=True)) or [()] * len(names)
    frame = pd.DataFrame({"run": pd.Categorical.from_codes(runs, pd.Index(list(records), dtype="object"))})
    for name, values in zip(names, columns, strict=True):
        if name in ("step", "value"):
            frame[name] = np.array(values, dtype=np.int64 if name == "step" else np.float64)
        else:
            codes, words = pd.factorize(np.array(values, dtype=object))
            frame[name] = pd.Categorical.from_codes(codes, pd.Index(words, dtype="object"))
    return frame


def runs_frame(rows: Mapping[str, dict[str, Any]]) -> pd.DataFrame:
    """One row per run."""
    import pandas as pd

    index = pd.Index(list(rows), name="run", dtype="object")
    frame = pd.DataFrame(list(rows.values()), index=index, dtype="object")
    return frame.astype(dict.fromkeys(("trial", "hparams_seed", "steps"), "int64"))


def planned_frame(rows: Mapping[str, tuple[Any, ...]]) -> pd.DataFrame:
    """Planned runs by name as a frame."""
    import pandas as pd

    index = pd.Index(list(rows), name="run", dtype="object")
    return pd.DataFrame(list(rows.values()), index=index, columns=list(PLANNED_COLUMNS), dtype="object")


def drop_clashes(runs: pd.DataFrame, records: pd.DataFrame, problems: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Keep one run a cell: a finished one before others, then the one started last. Adds to `problems`."""
    by_hash: dict[str, set[str]] = defaultdict(set)
    for digest, config in zip(runs["hash"], runs["config"], strict=True):
        by_hash[digest].add(json.dumps(config, sort_keys=True, default=str))
    for digest, different in by_hash.items():
        if len(different) > 1:
            problems.append(f"{len(different)} runs have the hash {digest} and different configurations.")
    cells: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for position, row in enumerate(runs[list(CELL)].itertuples(index=False, name=None)):
        cells[cell_of(dict(zip(CELL, row, strict=True)))].append(position)
    dropped: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for positions in cells.values():
        kept = max(positions, key=lambda position: _preference(runs, position))
        for other in positions:
            if other != kept:
                dropped[_difference(runs["config"].iloc[kept], runs["config"].iloc[other])].append((other, kept))
    for difference, pairs in dropped.items():
        names = join_first([f"{runs.index[other]} (kept: {runs.index[kept]})" for other, kept in pairs])
        problems.append(
            f"Left out, as another run has the same {', '.join(CELL[:-1])}, {difference}: {names}. "
            "Use separate folders for sweeps that differ in other settings."
        )
    left_out = {other for pairs in dropped.values() for other, _ in pairs}
    if left_out:
        runs = runs[[position not in left_out for position in range(len(runs))]]
        records = records[records["run"].isin(runs.index)].reset_index(drop=True)
    records = _drop_rewritten(records, problems)
    return runs, records.assign(run=records["run"].cat.set_categories(runs.index))


def _preference(runs: pd.DataFrame, position: int) -> tuple[int, str]:
    return _PREFERENCE.get(runs["status"].iloc[position], 0), str(runs["started"].iloc[position] or "")


def _difference(one: dict[str, object], other: dict[str, object]) -> str:
    keys = sorted(differing_keys(one, other))
    return "but not the same " + ", ".join(keys) if keys else "in the same configuration"


def _drop_rewritten(records: pd.DataFrame, problems: list[str]) -> pd.DataFrame:
    """Keep the last of records that a run wrote twice, since it resumed from an older state."""
    same_run = records["run"].cat.codes.diff() == 0
    back = same_run & (records["step"].diff() < 0)
    if not back.any():
        return records
    rewritten = records.loc[back, "run"].unique()
    problems.append(f"Records written twice, the later ones are used: {join_first([str(name) for name in rewritten])}.")
    keys = ["run", "step", "domain", "split", "metric", "group"]
    twice = records["run"].isin(rewritten) & records.duplicated(keys, keep="last")
    return records[~twice].reset_index(drop=True)
