"""Accuracies of runs as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array
from momentalign.runs import Sweep
from momentalign.selection._averages import with_averages

if TYPE_CHECKING:
    import pandas as pd

_Arrays = tuple[NDArray[np.int64], Array, Array]  # steps, inside, outside


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
    finished = sweep.finished()
    arrays = dict(_arrays(sweep, finished))
    runs: list[FinishedRun] = []
    for row in finished.itertuples():
        name = str(row.Index)
        if name in arrays:
            cell = (row.dataset, row.algorithm, row.setting, row.trial)
            about = (row.hparams_seed, row.domains, row.test_domains, row.steps, held_out_rows(row.rows, row.domains))
            runs.append(FinishedRun(name, cell, *about, *arrays[name]))
    return runs


def held_out_rows(rows: Mapping[str, Mapping[str, int]], domains: Sequence[str]) -> Array | None:
    """Numbers of rows of the domains' "out" splits, shape (domains,); None unless all are known."""
    counts = [rows.get(domain, {}).get("out", 0) for domain in domains]
    return np.array(counts, dtype=float) if all(counts) else None


def _arrays(sweep: Sweep, finished: pd.DataFrame) -> Iterator[tuple[str, _Arrays]]:
    records = sweep.records
    keep = records["domain"].notna() & records["split"].isin(["in", "out"]) & (records["metric"] == "accuracy")
    records = records[keep & records["run"].isin(finished.index)]
    codes = records["run"].cat.codes.to_numpy().astype(np.int64)
    order = np.argsort(codes, kind="stable")
    records, codes = records.iloc[order], codes[order]
    names = records["run"].cat.categories
    words = records["domain"].cat.categories
    domain, step = records["domain"].cat.codes.to_numpy(), records["step"].to_numpy()
    # NaN instead of dropped: the last record of a diverged run is still its last.
    until = sweep.diverged().reindex(names, fill_value=np.iinfo(np.int64).max).to_numpy()
    value = np.where(step < until[codes], records["value"].to_numpy(), np.nan)
    outside = (records["split"] == "out").to_numpy()
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(codes)], strict=False):
        name = names[codes[start]]
        one = slice(start, end)
        columns = np.full(len(words), -1)
        for column, word in enumerate(finished.at[name, "domains"]):
            if word in words:
                columns[words.get_loc(word)] = column
        steps, row = np.unique(step[one], return_inverse=True)
        column = columns[domain[one]]
        use = column >= 0
        cube = np.full((2, len(steps), len(finished.at[name, "domains"])), np.nan)
        cube[outside[one][use].astype(int), row[use], column[use]] = value[one][use]
        yield name, (steps, cube[0], cube[1])
