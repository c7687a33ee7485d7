"""Configuration of a probe as a run: a file of features, a method and an index in its grid."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from momentalign._datasets import SPLIT_NAMES
from momentalign._table_spec import resolve_spec
from momentalign._validation import check_count
from momentalign.probing._data import ProbeData
from momentalign.probing._features import COMPONENTS
from momentalign.probing._fit import L2, MAX_ITER, TOL
from momentalign.probing._methods import BATCH, LEARNING_RATE
from momentalign.probing._recipes import count_batches, method_grid, recipe_for
from momentalign.runs import RunConfig

_RECORDS = 100
"""Approximate number of records of a run of SGD."""


def make_probe_config(
    dataset: str | Path,
    method: str = "erm",
    *,
    hparams_seed: int = 0,
    trial: int = 0,
    solver: str = "converged",
    recipe: str = "table",
    hparams: Mapping[str, Any] | None = None,
    record_every: int | None = None,
    data: ProbeData | None = None,
) -> RunConfig:
    """Make the configuration of one probe.

    Args:
        dataset: A file of features as written by `momentalign embed`; or, with `data`, their name or resolved path.
        method: Name of the method.
        hparams_seed: Index in the method's grid; 0 is the published best set where there is one, else the first.
        trial: The seed: a bootstrap of the training rows (converged), or the order of the batches (SGD).
        solver: `"converged"` or `"sgd"`.
        recipe: `"waterbirds"`, `"celeba"`, `"multinli"`, one of these with `-released`, or `"table"`.
        hparams: Values that override those of the grid.
        record_every: Steps from one record to the next; None records every pass of the converged solver, and SGD about
            a hundred times.
        data: The features, if they are in memory.

    Returns:
        The configuration. Its `steps` are those of SGD, or the maximum number of iterations of the converged solver.

    Raises:
        ValueError: No such method, set, or hyper-parameter.
    """
    plan = recipe_for(recipe)
    path = str(dataset) if data is not None else resolve_spec(str(dataset))
    data = data or ProbeData.from_file(path)
    rows, *others = (len(data.rows(split)) for split in SPLIT_NAMES)
    grid = method_grid(method, solver, plan, train_rows=rows, evaluation_rows=others)
    if check_count("hparams_seed", hparams_seed, 0) >= len(grid):
        raise ValueError(
            f"'hparams_seed' should be below {len(grid)}, the number of sets of '{method}', but is {hparams_seed}."
        )
    values: dict[str, Any] = {
        **grid[hparams_seed],
        "solver": solver,
        "l2": L2 if solver == "converged" else 0.0,
        "components": COMPONENTS,
        "isr": True,
        "isr_class": plan.isr_class,
        "isr_scale": 0.0,
        "unit_scale": plan.unit_scale,
    }
    sgd = {"lr": LEARNING_RATE, "batch_size": BATCH, "epochs": plan.epochs}
    values |= sgd if solver == "sgd" else {"tol": TOL}
    unknown = [key for key in hparams or {} if key not in values]
    if unknown:
        raise ValueError(f"A probe by '{method}' has {', '.join(values)}, but no '{unknown[0]}'.")
    values |= {**(hparams or {}), "recipe": plan.name}
    steps, default = MAX_ITER, 1
    if solver == "sgd":
        batches = count_batches(rows, check_count("batch_size", values["batch_size"], 1))
        steps = batches * check_count("epochs", values["epochs"], 1)
        default = max(1, steps // _RECORDS)
    return RunConfig(
        dataset=path,
        algorithm=method,
        test_domains=(),
        trial=check_count("trial", trial, 0),
        hparams_seed=hparams_seed,
        hparams=values,
        steps=steps,
        record_every=default if record_every is None else check_count("record_every", record_every, 1),
        setting="probe",
    )
