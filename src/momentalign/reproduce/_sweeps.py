"""Sweep recipes: their plans, and the results of exactly their runs."""

import shlex
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from momentalign.reproduce._recipes import SweepRecipe

if TYPE_CHECKING:
    from momentalign.selection import Sweep
    from momentalign.sweep import Plan


def plan_of(recipe: SweepRecipe, *, root: str | Path | None = None, encoder: str | None = None) -> "Plan":
    """List a recipe's runs; the data sets must be in the data folder.

    Args:
        recipe: The recipe.
        root: Data folder.
        encoder: Replaces the paper's for the image sets.
    """
    from momentalign.sweep import Plan, make_plan

    plans = [
        make_plan(
            [name],
            recipe.algorithms,
            rules=recipe.rules,
            trials=recipe.trials,
            hparams=recipe.hparams,
            root=root,
            steps=recipe.steps,
            encoder=recipe.encoder(name, encoder),
        )
        for name in recipe.datasets
    ]
    runs = tuple(chain.from_iterable(plan.runs for plan in plans))
    domains = {name: domains for plan in plans for name, domains in plan.domains.items()}
    return Plan(runs, recipe.rules, domains)


def results_of(plan: "Plan", out: Path) -> "Sweep":
    """Read the results of a plan's runs so far.

    Args:
        plan: The plan.
        out: Folder of the runs; may hold runs of other recipes too, which are ignored.
    """
    from momentalign.selection import Sweep, read_runs

    names = {config.hash() for config in plan.runs}
    sweep = read_runs([folder for folder in (out / name for name in sorted(names)) if folder.is_dir()])
    return Sweep(sweep.runs, sweep.records, [problem.replace(f"{out}/", "") for problem in sweep.problems])


def sweep_commands(recipe: SweepRecipe, out: Path, encoder: str | None, root: Path | None = None) -> list[str]:
    """Equivalent `momentalign sweep` commands: for a Ray cluster, or to change something."""
    groups: dict[str | None, list[str]] = {}
    for name in recipe.datasets:
        groups.setdefault(recipe.encoder(name, encoder), []).append(name)
    common: list[object] = ["--algorithms", ",".join(recipe.algorithms), "--trials", recipe.trials]
    common += ["--hparams", recipe.hparams, "--no-weights"]
    common += [] if recipe.steps is None else ["--steps", recipe.steps]
    common += [] if root is None else ["--root", root]
    return [
        shlex.join(
            map(str, ["momentalign", "sweep", *names, *common, *(["--encoder", spec] if spec else []), "--out", out])
        )
        for spec, names in groups.items()
    ]
