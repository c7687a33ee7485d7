"""Accuracies of runs as arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array
from momentalign.runs import Sweep
from momentalign.selection._averages import with_averages


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """One finished run with its accuracies over steps; NaN where a record lacks one, or from divergence on.

    Args:
        name: Its name in the frame of runs.
        cell: dataset, algorithm, setting and trial.
        hparams_seed: Number of its set of hyper-parameters.
        domains: All domains of the data set, in order.
        test_domains: Those it was not trained on.
        total_steps: Number of steps that it was trained for.
        held_out: Number of rows of the "out" splits, shape (domains,); None if it is not recorded.
        steps: Steps with a record, ascending, shape (s,).
        inside: Accuracy on the "in" splits, shape (s, domains).
        outside: Accuracy on the "out" splits, shape (s, domains).
    """

    name: str
    cell: tuple[str, str, str, int]
    hparams_seed: int
    domains: tuple[str, ...]
    test_domains: tuple[str, ...]
    total_steps: int
    held_out: Array | None
    steps: NDArray[np.int64]
    inside: Array
    outside: Array

    def index(self, domain: str) -> int:
        """Column of a domain."""
        return self.domains.index(domain)


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
    steps = wide.index.get_level_values("step").to_numpy()
    where = wide.groupby(level="run").indices
    runs = []
    for row in finished.itertuples():
        if (rows := where.get(row.Index)) is not None:
            inside, outside = (
                values[rows][:, [place.get((split, domain), -1) for domain in row.domains]] for split in ("in", "out")
            )
            cell = (row.dataset, row.algorithm, row.setting, row.trial)
            about = (row.hparams_seed, row.domains, row.test_domains, row.steps, held_out_rows(row.rows, row.domains))
            runs.append(FinishedRun(str(row.Index), cell, *about, steps[rows], inside, outside))
    return runs


def held_out_rows(rows: Mapping[str, Mapping[str, int]], domains: Sequence[str]) -> Array | None:
    """Numbers of rows of the domains' "out" splits, shape (domains,); None unless all are known."""
    counts = [rows.get(domain, {}).get("out", 0) for domain in domains]
    return np.array(counts, dtype=float) if all(counts) else None
