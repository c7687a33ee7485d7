"""Cells (left-out domain × split × method): every setting of a method, as a line of a JSON lines file."""

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.estimators.sets import read_npz
from benchmarks.records import Line, json_lines, study_versions
from momentalign.data import seed_hash
from momentalign.probing import ProbeData, ProbeFeatures, ProbeSolver, find_method, method_grid, project, recipe_for

FEATURES = "pacs/PACS_efficientnet_lite0_1280d_fp16.npz"
METHODS = (
    "erm",
    "erm-balanced",
    "groupdro",
    "vrex",
    "irm",
    "gradient-matching",
    "hessian-matching",
    "cma",
    "cma-relative",
    "hgp",
    "fishr",
    "hutchinson",
)
"""Methods of the protocol that use domains, not groups; CORAL is the fit of `erm-balanced`."""
HELD_OUT = 0.2
"""Share of every training domain's rows that select, and are not fitted."""
MOST_SETS = 3
"""Sets of a method's grid, evenly spaced from the first to the last."""


class ProbeCell(NamedTuple):
    """One method without one domain, on one split."""

    domain: str
    seed: int
    method: str


def left_out_data(rows: Any, domain: str, seed: int) -> ProbeData:
    """Rows of a split: the left-out domain tests; of the other domains held-out rows select, and the rest train."""
    rng = np.random.default_rng(seed_hash("probing", domain, seed))
    splits = np.where(rows.domains == domain, 2, 0)
    for other in np.unique(rows.domains[rows.domains != domain]):
        order = rng.permutation(np.flatnonzero(rows.domains == other))
        splits[order[: round(HELD_OUT * len(order))]] = 1
    return ProbeData.from_arrays(rows.features.to_numpy(), rows.targets, rows.domains, splits, name="PACS")


def chosen_sets(method: str, train_rows: int) -> list[dict[str, float]]:
    """The sets of the package's grid that are fitted."""
    grid = method_grid(method, "converged", recipe_for("table"), train_rows=train_rows)
    number = min(MOST_SETS, len(grid))
    return [grid[index] for index in np.linspace(0, len(grid) - 1, number).round().astype(int)]


def run_cell(features: ProbeFeatures, cell: ProbeCell) -> Line:
    """Fit the sets of a method; the line has accuracies of the training domains' held-out rows, and of test rows."""
    data = features.data
    validation = data.domains[data.rows("val")]
    sources = np.unique(validation)
    sets = chosen_sets(cell.method, len(data.rows("train")))
    start = time.process_time()
    heads = ProbeSolver("converged").fit(features, find_method(cell.method), sets, cell.seed)
    seconds = time.process_time() - start
    results = []
    for hparams, head in zip(sets, heads, strict=True):
        scores = {split: features.score(head, split) for split in ("val", "test")}
        results.append(
            {
                "hparams": hparams,
                "validation": scores["val"].domains[sources].tolist(),
                "test": scores["test"].average,
                "converged": head.converged,
            }
        )
    return {
        **cell._asdict(),
        "versions": study_versions(),
        "device": "cpu",
        "seconds": round(seconds, 3),
        "sources": [data.domain_names[index] for index in sources],
        "rows": {
            "train": len(data.rows("train")),
            "validation": [int((validation == index).sum()) for index in sources],
            "test": len(data.rows("test")),
        },
        "isr_class": data.classes[features.projection.isr_class or 0],
        "results": results,
    }


def run_cells(
    seeds: Sequence[int],
    methods: Sequence[str],
    root: Path,
    out: Path,
    progress: Callable[[str], None],
    seconds: float = math.inf,
) -> None:
    """Run the cells that are not in `out` yet, split by split, appending a line for each.

    No cell is begun after `seconds`.
    """
    until = time.monotonic() + seconds
    done = {(line["domain"], line["seed"], line["method"]) for line in json_lines(out)} if out.exists() else set()
    rows = read_npz(root / FEATURES)
    for seed in seeds:
        for domain in np.unique(rows.domains).tolist():
            missing = [cell for method in methods if (cell := ProbeCell(domain, seed, method)) not in done]
            if not missing:
                continue
            features = project(left_out_data(rows, domain, seed))
            for cell in missing:
                if time.monotonic() > until:
                    return
                line = run_cell(features, cell)
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                progress(f"{domain}, split {seed}, {cell.method}: {line['seconds']:.1f} s")
