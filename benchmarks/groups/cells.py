"""Cells (set × seed × method), run one after the other; each finished one is a line of a JSON lines file."""

import json
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.estimators.sets import prepare_columns
from benchmarks.groups.methods import METHODS, FitArrays, describe_choice, fit_settings
from benchmarks.groups.sets import read_set, split_rows
from benchmarks.records import Line, json_lines, study_versions
from momentalign.sklearn import group_report


class GroupCell(NamedTuple):
    """One method on one split of a set."""

    set: str
    seed: int
    method: str


def plan_cells(sets: Sequence[str], seeds: Sequence[int], methods: Sequence[str] = tuple(METHODS)) -> list[GroupCell]:
    """All cells, in the order of the sets."""
    return [GroupCell(name, seed, method) for name in sets for seed in seeds for method in methods]


def run_cells(cells: Sequence[GroupCell], root: Path, out: Path, progress: Callable[[str], None]) -> list[Line]:
    """Run the cells that are not in `out` yet, appending a line for each; returns the lines of all cells."""
    lines = {(line["set"], line["seed"], line["method"]): line for line in json_lines(out)} if out.exists() else {}
    missing = [cell for cell in cells if cell not in lines]
    if missing:
        progress(f"{len(cells) - len(missing)} of {len(cells)} cells are in {out}; {len(missing)} to run.")
    start = time.perf_counter()
    for number, cell in enumerate(missing, 1):
        lines[cell] = run_cell(cell, root)
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lines[cell]) + "\n")
        left = (time.perf_counter() - start) / number * (len(missing) - number)
        progress(f"{number}/{len(missing)} {'/'.join(map(str, cell))}: about {left / 60:.0f} min left")
    return [lines[cell] for cell in cells]


def run_cell(cell: GroupCell, root: Path) -> Line:
    """Fit every setting of a method; the line has what each gets right in every group, and its measures on test rows.

    Counts are in the order of `groups`, whose classes are in `classes`.
    """
    parts = prepared(cell.set, cell.seed, root)
    groups = np.unique(parts["train"].groups)
    members = {split: [rows.groups == group for group in groups] for split, rows in parts.items()}
    results = []
    start = time.process_time()
    for setting, model in fit_settings(cell.method, parts["train"]):
        seconds = time.process_time() - start
        right = {split: model.predict(rows.features) == rows.targets for split, rows in parts.items()}
        result = {
            "setting": setting,
            "seconds": round(seconds, 3),
            "right": {split: [int(right[split][here].sum()) for here in members[split]] for split in parts},
            "test": _measures(model, parts["test"], parts["train"]),
        }
        if choice := describe_choice(model):
            result["chosen"] = choice
        results.append(result)
        start = time.process_time()
    return {
        **cell._asdict(),
        "versions": study_versions(),
        "groups": groups.tolist(),
        "classes": [str(parts["train"].targets[here][0]) for here in members["train"]],
        "rows": {split: [int(here.sum()) for here in members[split]] for split in parts},
        "features": parts["train"].features.shape[1],
        "results": results,
    }


@cache
def prepared(name: str, seed: int, root: Path) -> dict[str, FitArrays]:
    """Rows of each split, preprocessed by what the training rows say."""
    rows = read_set(name, root)
    indices = split_rows(name, rows, seed)
    pipeline = prepare_columns().fit(rows.features.iloc[indices["train"]])
    return {
        split: FitArrays(
            pipeline.transform(rows.features.iloc[index]),
            *(column[index] for column in (rows.targets, rows.groups, rows.attributes)),
        )
        for split, index in indices.items()
    }


def _measures(model: Any, test: FitArrays, train: FitArrays) -> dict[str, float]:
    report = group_report(
        test.targets,
        model.predict(test.features),
        test.groups,
        probabilities=model.predict_proba(test.features),
        train_groups=train.groups,
        classes=model.classes_,
    )
    return report.metrics() | {"low": report.worst_group.low, "high": report.worst_group.high}
