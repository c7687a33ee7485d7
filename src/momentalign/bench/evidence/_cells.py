"""Cells, set × seed × domain left out: run side by side, each finished one kept in a JSON file."""

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
from momentalign._files import atomic_write
from momentalign.bench.evidence._methods import Prepared, all_methods
from momentalign.bench.evidence._sets import SETS, draw_rows, read_set
from momentalign.sklearn import (
    MomentAlignedClassifier,
    MomentAlignedClassifierCV,
    MomentAlignedRegressor,
    MomentAlignedRegressorCV,
)


class Cell(NamedTuple):
    """One domain left out of one set under one seed."""

    set: str
    seed: int
    domain: str

    def __str__(self) -> str:
        return f"{self.set}/{self.seed}/{self.domain}"


def plan(sets: Sequence[str], seeds: Sequence[int], root: Path) -> list[Cell]:
    """All cells, the costly sets first.

    Args:
        sets: Keys of `SETS`.
        seeds: Of the draws.
        root: Folder of the data.

    Returns:
        The cells.
    """
    costly = ["pacs", "amazon", "beijing"]
    order = sorted(sets, key=lambda name: costly.index(name) if name in costly else len(costly))
    return [
        Cell(name, seed, str(domain))
        for name in order
        for seed in seeds
        for domain in np.unique(read_set(name, root).domains)
    ]


def run_cell(cell: Cell, root: Path) -> dict[str, Any]:
    """Prepare a cell's rows and run every method on them.

    Args:
        cell: Which.
        root: Folder of the data.

    Returns:
        Results by method, numbers of rows, seconds of processor time.
    """
    begun = time.process_time()
    X, y, domains = read_set(cell.set, root)
    trained, tested = draw_rows(cell.set, domains, cell.seed)
    train, test = trained & (domains != cell.domain), tested & (domains == cell.domain)
    prepare = SETS[cell.set].prepare().fit(X[train])
    rows = Prepared(prepare.transform(X[train]), y[train], domains[train], prepare.transform(X[test]), y[test])
    methods = all_methods(rows, is_regression=SETS[cell.set].regression)
    return {
        "train_rows": int(train.sum()),
        "test_rows": int(test.sum()),
        "features": rows.train.shape[1],
        "seconds": round(time.process_time() - begun, 2),
        "methods": methods,
    }


def run_cells(
    cells: Sequence[Cell], root: Path, out: Path, *, jobs: int, progress: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Run what is not in `out` yet, several cells at a time, one thread each.

    Args:
        cells: All cells wanted.
        root: Folder of the data.
        out: JSON file with the cells that are finished; written after each.
        jobs: Processes.
        progress: Takes a line whenever a cell is finished.

    Returns:
        Results of all cells, by their names.
    """
    kept = read_cells(out)
    missing = [cell for cell in cells if str(cell) not in kept]
    if missing:
        progress(f"{len(cells) - len(missing)} of {len(cells)} cells are in {out}; {len(missing)} to run.")
    begun = time.perf_counter()
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        results: Iterator[tuple[Cell, dict[str, Any]]] = joblib.Parallel(
            n_jobs=min(jobs, max(1, len(missing))), return_as="generator_unordered"
        )(joblib.delayed(_named)(cell, root) for cell in missing)
        for number, (cell, result) in enumerate(results, 1):
            kept[str(cell)] = result
            _write(out, kept)
            left = (time.perf_counter() - begun) / number * (len(missing) - number)
            progress(f"{number}/{len(missing)} {cell}: {result['seconds']:.0f} s, about {left / 60:.0f} min left")
    return {str(cell): kept[str(cell)] for cell in cells}


def read_cells(out: Path) -> dict[str, dict[str, Any]]:
    """Cells that a file holds; none where there is no file.

    Args:
        out: The file.

    Returns:
        Results by the cells' names.

    Raises:
        ValueError: The file is of estimators with other defaults, whose cells would not compare.
    """
    if not out.exists():
        return {}
    content = json.loads(out.read_text())
    if content.get("estimators") != _estimators():
        raise ValueError(
            f"{out} holds cells of estimators with other defaults or of another version, which do not compare with "
            "new ones. Remove it, or write to another file with --out."
        )
    cells: dict[str, dict[str, Any]] = content["cells"]
    return cells


def _named(cell: Cell, root: Path) -> tuple[Cell, dict[str, Any]]:
    return cell, run_cell(cell, root)


def _write(out: Path, cells: dict[str, dict[str, Any]]) -> None:
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
