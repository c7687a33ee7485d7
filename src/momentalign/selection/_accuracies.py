"""Accuracies of runs as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from momentalign._types import Array, Integers
from momentalign.runs import Sweep
from momentalign.selection._averages import with_averages


class FinishedRun(NamedTuple):
    """One finished run with its accuracies over steps; NaN where a record lacks one, or from divergence on.

    `row` is the run's in the frame of runs, with all domains of the data set in order; `steps` (s,) are those with a
    record, ascending, `inside` and `outside` (s, domains) the accuracies on the "in" and "out" splits.
    """

    row: Any
    steps: Integers
    inside: Array
    outside: Array


def finished_runs(sweep: Sweep) -> list[FinishedRun]:
    """All finished runs with their accuracies, in the order of `sweep.runs`, each followed by its averaged weights."""
    sweep = with_averages(sweep)
    finished, records, keys = sweep.finished(), sweep.records, ["run", "step", "split", "domain"]
    keep = records["domain"].notna() & records["split"].isin(["in", "out"]) & (records["metric"] == "accuracy")
    records = records[keep & records["run"].isin(finished.index)].drop_duplicates(keys, keep="last")
    records = records.astype({"run": object, "split": object, "domain": object})
    # NaN instead of dropped: the last record of a diverged run is still its last.
    counts = ~(records["step"] >= records["run"].map(sweep.diverged()).astype(float))
    wide = records.assign(value=records["value"].where(counts)).set_index(keys)["value"].unstack(["split", "domain"])
    place = {key: column for column, key in enumerate(wide.columns)}
    values = np.column_stack([wide.to_numpy(dtype=float), np.full(len(wide), np.nan)])  # the last one: no record
    steps, where, runs = wide.index.get_level_values("step").to_numpy(), wide.groupby(level="run").indices, []
    for row in finished.itertuples():
        if (rows := where.get(row.Index)) is not None:
            inside, outside = (
                values[rows][:, [place.get((split, domain), -1) for domain in row.domains]] for split in ("in", "out")
            )
            runs.append(FinishedRun(row, steps[rows], inside, outside))
    return runs


def held_out_rows(rows: Mapping[str, Mapping[str, int]], domains: Sequence[str]) -> Array | None:
    """Numbers of rows of the domains' "out" splits, shape (domains,); None unless all are known."""
    counts = [rows.get(domain, {}).get("out", 0) for domain in domains]
    return np.array(counts, dtype=float) if all(counts) else None
