"""Runs and their records, as two frames."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from momentalign.selection._diverged import diverged_steps
from momentalign.selection._planned import planned_frame

# Of momentalign.training, which takes torch: reading runs does without.
FORMAT = 1

RUN_COLUMNS = (
    "dataset",
    "algorithm",
    "test_domains",
    "trial",
    "hparams_seed",
    "hparams",
    "steps",
    "encoder",
    "setting",
    "status",
    "error",
    "domains",
    "device",
    "started",
    "finished",
    "hash",
    "folder",
    "config",
    "num_classes",
    "classes",
    "versions",
    "features",
    "data",
)

# What makes two runs the same cell of a table: only one of them can be in it.
CELL = ("dataset", "algorithm", "test_domains", "trial", "hparams_seed", "setting")


class UnreadableError(Exception):
    """A folder that looks like a run but cannot be read as one; the message says why."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """What folders of runs hold.

    Args:
        runs: One row a run, in the order of the folders' names; the index `run` is the folder's name. Columns:
            dataset, algorithm, test_domains (tuple), trial, hparams_seed, hparams (dict), steps, encoder, setting,
            status ("finished", "running" or "failed"), error, domains (tuple, in the data set's order), device,
            started, finished, hash, folder, config (dict, the whole of it), num_classes, classes (tuple),
            versions (dict) and features (of a probe: dict with dataset and encoder, where the file said them).
        records: One row a number: run, step, domain, split, metric, group, value. All but step and value are
            categorical, and missing where they do not apply.
        problems: What was left out or looks wrong, a line each.
        planned: Runs that a sweep has not begun: the columns of `runs` that say what they are, and none of the others.
    """

    runs: pd.DataFrame
    records: pd.DataFrame
    problems: list[str] = field(default_factory=list)
    planned: pd.DataFrame = field(default_factory=lambda: planned_frame({}))

    def finished(self) -> pd.DataFrame:
        """The runs that went to their end: the others have no say in any selection."""
        return self.runs[self.runs["status"] == "finished"]

    def diverged(self) -> pd.Series:
        """The runs whose loss stopped being a number, with the step from which on their accuracies do not count."""
        return diverged_steps(self.runs, self.records)


def runs_frame(rows: list[dict[str, Any]], names: list[str]) -> pd.DataFrame:
    """One row a run; every column is there, also of no runs."""
    columns: dict[str, Any] = {}
    for column in RUN_COLUMNS:
        values = [row[column] for row in rows]
        numeric = column in ("trial", "hparams_seed", "steps")
        columns[column] = pd.Series(values, index=range(len(names)), dtype="int64" if numeric else "object")
    frame = pd.DataFrame(columns)
    frame.index = pd.Index(names, name="run", dtype="object")
    return frame


def some(names: list[str], at_most: int = 10) -> str:
    """Names in a row, and how many more there are."""
    more = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {more} more" if more > 0 else "")
