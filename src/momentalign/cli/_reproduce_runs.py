"""What `reproduce` does once it knows which recipe: sweeps, and probes of features that it makes first."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from momentalign._format import pluralize
from momentalign.cli._options import find_device
from momentalign.cli._output import Notes, share_bar
from momentalign.cli._sweep_output import make_engine, run_plan, say_notes

if TYPE_CHECKING:
    from momentalign.reproduce import ProbingRecipe, SweepRecipe


@dataclass(frozen=True)
class Choices:
    """What was typed beside the recipe's name; see the command's options."""

    out: Path
    root: Path | None = None
    encoder: str | None = None
    features: Path | None = None
    solver: str = "converged"
    skip_missing: bool = False
    skip_bad_files: bool = False
    retry_failed: bool = False
    jobs: int | None = None
    device: str = "auto"
    per_gpu: int = 1
    dry_run: bool = False


def run_sweep_recipe(console: Console, recipe: "SweepRecipe", choices: Choices) -> None:
    """Train what a table or figure of fine-tuning takes, and show it.

    Args:
        console: Where to print.
        recipe: What to run.
        choices: What was typed.

    Raises:
        Exit: With 2 if data are missing, with 1 if runs failed, with 130 after an interruption.
    """
    from momentalign._format import printable
    from momentalign.report import accuracy_table, write_report
    from momentalign.reproduce import plan_of, results_of, sweep_commands

    out, root = choices.out, choices.root
    console.print(f"{recipe.runs:,} runs: {', '.join(recipe.datasets)}; {', '.join(recipe.algorithms)}.")
    absent = _missing(console, recipe, choices)
    if absent is None:
        return
    recipe = recipe.without(absent)
    console.print("The same by hand, for instance on a Ray cluster:")
    for line in sweep_commands(recipe, out, choices.encoder, root):
        console.print(f"  {line}")
    with Notes(console):
        plan = plan_of(recipe, root=root, encoder=choices.encoder)
        engine = make_engine("local", out, jobs=choices.jobs, device=choices.device, per_gpu=choices.per_gpu)
        options: dict[str, Any] = {"root": root, "retry_failed": choices.retry_failed}
        options |= {"skip_bad_files": choices.skip_bad_files}
        tally = run_plan(console, plan, engine, out, weights=False, dry_run=choices.dry_run, **options)
    if tally is None:
        return
    results = results_of(plan, out)
    for rule in recipe.rules:
        console.print()
        console.print(accuracy_table(results, rule).to_text(), end="")
    console.print()
    figures = out / "figures" / recipe.name if recipe.figure else None
    with share_bar(console) as progress:
        page = write_report(results, out / f"{recipe.name}.html", figures, title=recipe.what, progress=progress)[0]
    say_notes(console, tally)
    for problem in results.problems:
        console.print(printable(problem))
    if figures is not None:
        console.print(f"The figure lies in {figures}, as {recipe.figure}-*.png, .svg and .pdf.")
    console.print(f"The page lies at {page}, the runs in {out}.")
    if tally.failed:
        advice = "" if choices.retry_failed else " To try again, add --retry-failed to the same command."
        console.print(f"{pluralize(len(tally.failed), 'run')} failed.{advice}")
        raise typer.Exit(1)


def run_probe_recipe(console: Console, recipe: "ProbingRecipe", choices: Choices) -> None:
    """Make the features that a table or figure of probing takes, probe them, and show it.

    Args:
        console: Where to print.
        recipe: What to run.
        choices: What was typed.

    Raises:
        ValueError: Features that are not there, or not of the recipe's data set.
        Exit: With 2 if data are missing, with 130 after an interruption.
    """
    from momentalign.reproduce import check_features, features_path

    given, where = choices.features, find_device(choices.device)
    if given is not None:
        if len(recipe.datasets) > 1:
            raise ValueError(
                f"'--features' is one file, but {recipe.name} probes {', '.join(recipe.datasets)}. Name one."
            )
        check_features(given, recipe.datasets[0])
    names = ", ".join(recipe.methods)
    console.print(f"Linear probes of {', '.join(recipe.datasets)} on {recipe.seeds} seeds: {names}.")
    absent = [] if given is not None else _missing(console, recipe, choices)
    if absent is None:
        return
    here = [name for name in recipe.datasets if name not in absent]
    for name in here:
        kept = given or features_path(recipe, name, choices.out)
        if kept.exists():
            console.print(f"{name}: the features lie in {kept} already.")
            continue
        how = ", fine-tuned first" if name == "multinli" else ""
        least = f", of at most {recipe.rows} rows of each group and split" if recipe.rows else ""
        console.print(
            f"{name}: features by {choices.encoder or recipe.encoder(name)}{how}{least}, on {where}, kept in {kept}."
        )
    if choices.dry_run:
        console.print("Nothing was run.")
        return
    try:
        for name in here:
            _probe(console, recipe, name, choices, where)
    except KeyboardInterrupt:
        console.print("Interrupted. Features that are done are kept; run the same command again.")
        raise typer.Exit(130) from None


def _probe(console: Console, recipe: "ProbingRecipe", name: str, choices: Choices, device: str) -> None:
    """One data set of a recipe."""
    from momentalign._files import atomic_write
    from momentalign.report import write_report
    from momentalign.reproduce import make_features, probe_curves, probe_table

    out = choices.out
    with Notes(console), share_bar(console) as progress:
        path = choices.features or make_features(
            recipe,
            name,
            out,
            root=choices.root,
            encoder=choices.encoder,
            device=device,
            skip_bad_files=choices.skip_bad_files,
            progress=progress,
        )
        if recipe.figure:
            sweep = probe_curves(recipe, path, out, progress=progress)
            figures = out / "figures" / recipe.name
            page = write_report(sweep, out / f"{recipe.name}.html", figures, title=recipe.what)[0]
            console.print(f"The page lies at {page}, the figure in {figures}, as terms-*.png, .svg and .pdf.")
            return
        result = probe_table(recipe, name, path, solver=choices.solver, progress=progress)
    console.print()
    console.print(str(result))
    table = out / f"{name}-{choices.solver}.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(table, result.to_frame().to_csv())
    atomic_write(table.with_name(f"{name}-{choices.solver}-grid.csv"), result.grid_frame().to_csv(index=False))
    console.print(f"The numbers lie in {table}, all fits beside them; the features in {path}.")


def _missing(console: Console, recipe: "ProbingRecipe | SweepRecipe", choices: Choices) -> list[str] | None:
    """Say which data are missing: names to leave out, or None if there is nothing to do."""
    from momentalign.reproduce import missing_data

    absent, number = missing_data(recipe, choices.root), len(recipe.datasets)
    for one in absent:
        console.print(str(one))
    if not absent or (choices.skip_missing and len(absent) < number):
        return [one.dataset for one in absent]
    console.print("Nothing was run." + (" --skip-missing does the rest." if len(absent) < number else ""))
    if choices.dry_run:
        return None
    raise typer.Exit(2)
