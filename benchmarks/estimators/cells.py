"""Cells (set × seed × domain left out), run in parallel; each finished one is saved to a JSON file."""

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import joblib  # type: ignore[import-untyped]  # comes with scikit-learn
import numpy as np
import scipy
import sklearn

import momentalign
from benchmarks.estimators.methods import CellRows, all_methods
from benchmarks.estimators.sets import SETS, draw_rows, read_set
from momentalign._files import atomic_write
from momentalign.sklearn import (
    MomentAlignedClassifier,
    MomentAlignedClassifierCV,
    MomentAlignedRegressor,
    MomentAlignedRegressorCV,
)

CellResults = dict[str, dict[str, Any]]
"""Results by the cells' names."""


class Cell(NamedTuple):
    """One domain left out of one set under one seed."""

    set: str
    seed: int
    domain: str

    def __str__(self) -> str:
        return f"{self.set}/{self.seed}/{self.domain}"


def plan_cells(sets: Sequence[str], seeds: Sequence[int], root: Path) -> list[Cell]:
    """All cells, slow sets first."""
    slow = ["pacs", "amazon", "beijing"]
    order = sorted(sets, key=lambda name: slow.index(name) if name in slow else len(slow))
    return [
        Cell(name, seed, str(domain))
        for name in order
        for seed in seeds
        for domain in np.unique(read_set(name, root).domains)
    ]


def run_cell(cell: Cell, root: Path) -> tuple[Cell, dict[str, Any]]:
    """Run every method on a cell; returns the cell with its results, row counts and CPU seconds."""
    start = time.process_time()
    X, y, domains = read_set(cell.set, root)
    trained, tested = draw_rows(cell.set, domains, cell.seed)
    train, test = trained & (domains != cell.domain), tested & (domains == cell.domain)
    prepare = SETS[cell.set].prepare().fit(X[train])
    rows = CellRows(prepare.transform(X[train]), y[train], domains[train], prepare.transform(X[test]), y[test])
    methods = all_methods(rows, is_regression=SETS[cell.set].regression)
    return cell, {
        "train_rows": int(train.sum()),
        "test_rows": int(test.sum()),
        "features": rows.train.shape[1],
        "seconds": round(time.process_time() - start, 2),
        "methods": methods,
    }


def run_cells(
    cells: Sequence[Cell], root: Path, out: Path, *, jobs: int, progress: Callable[[str], None]
) -> CellResults:
    """Run the cells that are not in `out` yet, `jobs` at a time with one thread each; save after every cell."""
    saved = read_cells(out)
    missing = [cell for cell in cells if str(cell) not in saved]
    if missing:
        progress(f"{len(cells) - len(missing)} of {len(cells)} cells are in {out}; {len(missing)} to run.")
    start = time.perf_counter()
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        results: Iterator[tuple[Cell, dict[str, Any]]] = joblib.Parallel(
            n_jobs=min(jobs, max(1, len(missing))), return_as="generator_unordered"
        )(joblib.delayed(run_cell)(cell, root) for cell in missing)
        for number, (cell, result) in enumerate(results, 1):
            saved[str(cell)] = result
            _write(out, saved)
            left = (time.perf_counter() - start) / number * (len(missing) - number)
            progress(f"{number}/{len(missing)} {cell}: {result['seconds']:.0f} s, about {left / 60:.0f} min left")
    return {str(cell): saved[str(cell)] for cell in cells}


def read_cells(out: Path) -> CellResults:
    """Finished cells of a file, none if it does not exist; refuses cells of other estimators or versions."""
    if not out.exists():
        return {}
    content = json.loads(out.read_text())
    if content.get("estimators") != _estimators():
        raise ValueError(
            f"{out} holds cells of estimators with other defaults or of another version, which do not compare with "
            "new ones. Remove it, or write to another file with --out."
        )
    cells: CellResults = content["cells"]
    return cells


def _write(out: Path, cells: CellResults) -> None:
    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    content = {"estimators": _estimators(), "versions": versions, "cells": dict(sorted(cells.items()))}
    atomic_write(out, json.dumps(content, indent=1))


def _estimators() -> dict[str, str]:
    """The version and every estimator's defaults."""
    estimators = (
        MomentAlignedClassifier,
        MomentAlignedClassifierCV,
        MomentAlignedRegressor,
        MomentAlignedRegressorCV,
    )
    return {"momentalign": momentalign.__version__} | {
        estimator.__name__: repr(sorted(estimator().get_params().items())) for estimator in estimators
    }
