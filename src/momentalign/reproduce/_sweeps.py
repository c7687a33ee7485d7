"""Recipes that are sweeps: their plans, and the results of just their runs."""

import shlex
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path

from momentalign.reproduce._kinds import SweepRecipe
from momentalign.selection import Sweep, read_runs
from momentalign.sweep import Plan, make_plan


def plan_of(recipe: SweepRecipe, *, root: str | Path | None = None, encoder: str | None = None) -> Plan:
    """List a recipe's runs; the data sets have to be there.

    Args:
        recipe: What to run.
        root: Data folder.
        encoder: In place of the paper's, for the image sets.

    Returns:
        The plan.
    """
    plans = [
        make_plan(
            [name],
            recipe.algorithms,
            rules=recipe.rules,
            trials=recipe.trials,
            hparams=recipe.hparams,
            root=root,
            steps=recipe.steps,
            encoder=encoder_of(recipe, name, encoder),
        )
        for name in recipe.datasets
    ]
    runs = tuple(chain.from_iterable(plan.runs for plan in plans))
    domains = {name: domains for plan in plans for name, domains in plan.domains.items()}
    return Plan(runs, recipe.rules, domains)


def encoder_of(recipe: SweepRecipe, dataset: str, encoder: str | None) -> str | None:
    """The encoder of a data set: for images the given one, or else the paper's."""
    own = recipe.encoder(dataset)
    return own if own is None or encoder is None else encoder


def results_of(plan: Plan, out: Path) -> Sweep:
    """What the runs of a plan have given so far.

    Args:
        plan: Which runs.
        out: Folder that may hold runs of other recipes too.

    Returns:
        Their frames; problems are of these runs alone.
    """
    names = {config.hash() for config in plan.runs}
    found = read_runs([folder for folder in (out / name for name in sorted(names)) if folder.is_dir()])
    return Sweep(found.runs, found.records, [problem.replace(f"{out}/", "") for problem in found.problems])


def without(recipe: SweepRecipe, datasets: Iterable[str]) -> SweepRecipe:
    """The recipe without some of its data sets."""
    left_out = set(datasets)
    return replace(recipe, datasets=tuple(name for name in recipe.datasets if name not in left_out))


def by_hand(recipe: SweepRecipe, out: Path, encoder: str | None, root: Path | None = None) -> list[str]:
    """Commands that do the same: for a Ray cluster, or to change something."""
    groups: dict[str | None, list[str]] = {}
    for name in recipe.datasets:
        groups.setdefault(encoder_of(recipe, name, encoder), []).append(name)
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
