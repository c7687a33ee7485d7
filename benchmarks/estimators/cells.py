"""Cells (set × draw of rows × fold of domains left out), run in parallel; each finished one is saved to a JSON file."""

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import joblib  # type: ignore[import-untyped]
import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

import momentalign
from benchmarks.estimators.methods import SEARCHES, CellRows, all_methods
from benchmarks.estimators.sets import OUTER_FOLDS, SETS, part_of, prepare, read_set
from momentalign._files import atomic_write

SMALL_ROWS = 100
"""Rows of each training domain in the small draws."""
SMALL_DRAWS = 3
"""Small draws of a set, beside the one with all rows."""

CellResults = dict[str, dict[str, Any]]
"""Results by the cells' names."""


class Cell(NamedTuple):
    """One fold of domains left out of one set. Draw 0 has all training rows, the others at most 100 of a domain."""

    set: str
    draw: int
    fold: int

    def __str__(self) -> str:
        return f"{self.set}/{self.draw}/{self.fold}"


def plan_cells(sets: Sequence[str], draws: Sequence[int], root: Path) -> list[Cell]:
    """All cells, in the order of the sets."""
    return [
        Cell(name, draw, fold)
        for name in sets
        for draw in draws
        for fold in range(len(outer_folds(read_set(name, root).domains)))
    ]


def outer_folds(domains: NDArray[np.str_]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to fit and to score: each domain left out in turn, or folds of domains of about as many rows."""
    number = min(len(np.unique(domains)), OUTER_FOLDS)
    return list(GroupKFold(number).split(domains, groups=domains))


def draw_rows(domains: NDArray[np.str_], draw: int) -> NDArray[np.bool_]:
    """Mask (n,) of a draw's rows; a domain's rows are the same whichever domain is left out."""
    if draw == 0:
        return np.ones(len(domains), dtype=bool)
    rng, drawn = np.random.default_rng(draw), np.zeros(len(domains), dtype=bool)
    for domain in np.unique(domains):
        drawn[rng.permutation(np.flatnonzero(domains == domain))[:SMALL_ROWS]] = True
    return drawn


def run_cell(cell: Cell, root: Path) -> tuple[Cell, dict[str, Any]]:
    """Run every method on a cell; returns the cell with its results and row counts."""
    frame, y, domains = read_set(cell.set, root)
    train, test = outer_folds(domains)[cell.fold]
    train = train[draw_rows(domains, cell.draw)[train]]
    pipeline = prepare(cell.set).fit(frame.iloc[train])
    features = [pipeline.transform(frame.iloc[index]) for index in (train, test)]
    rows = CellRows(features[0], y[train], domains[train], features[1], y[test], domains[test])
    return cell, {
        "train_rows": len(train),
        "test_rows": len(test),
        "features": features[0].shape[1],
        "methods": all_methods(
            rows, regression=SETS[cell.set].regression, variants=cell.draw == 0 and part_of(cell.set) == "settle"
        ),
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
            progress(f"{number}/{len(missing)} {cell}: about {left / 60:.0f} min left")
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
    """The version and the searches' defaults."""
    return {"momentalign": momentalign.__version__} | {
        search.__name__: repr(sorted(search().get_params().items())) for search in SEARCHES.values()
    }
