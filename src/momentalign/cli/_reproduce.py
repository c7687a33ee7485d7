"""`momentalign reproduce`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from momentalign.cli._options import (
    AcceleratorOption,
    JobsOption,
    PerGpuOption,
    RetryFailedOption,
    RootOption,
    SkipBadFilesOption,
    find_device,
)
from momentalign.cli._output import (
    exit_on_interrupt,
    make_console,
    names_table,
    print_block,
    print_lines,
    print_warnings,
    share_bar,
)
from momentalign.cli._sweep_output import make_engine, print_notes, print_table, run_plan

if TYPE_CHECKING:
    from momentalign.reproduce import PaperRecipe, ProbingRecipe, SweepRecipe


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A recipe; --list shows all.", show_default=False)] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List all recipes and whether their data are available.")
    ] = False,
    scale: Annotated[
        str, typer.Option(help="full: as in the paper. small: shorter and fewer runs, to check that it works.")
    ] = "full",
    preset: Annotated[
        str,
        typer.Option(help="published: as the paper describes it. released: as its public code runs it."),
    ] = "published",
    encoder: Annotated[
        str | None, typer.Option(help="Replaces the paper's encoder of images and texts.", show_default=False)
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="For probes: an existing file of features.", show_default=False)
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="For probes: converged, or sgd as in the paper.", show_default="converged; sgd with --preset released"
        ),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out data sets that are not in the data folder.")
    ] = False,
    skip_bad_files: SkipBadFilesOption = False,
    retry_failed: RetryFailedOption = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of runs and results.", show_default="runs/reproduce, or -small"),
    ] = None,
    root: RootOption = None,
    jobs: JobsOption = None,
    device: AcceleratorOption = "auto",
    per_gpu: PerGpuOption = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be run and what is missing.")] = False,
) -> None:
    """Reproduce a table or figure of the paper, with the published numbers beside."""
    from momentalign._outputs import check_folder
    from momentalign._validation import check_choice
    from momentalign.reproduce import CostRecipe, ProbingRecipe, SweepRecipe, differences, find_recipe

    if list_:
        _print_list(root)
        return
    if name is None:
        raise ValueError("Name a recipe: 'momentalign reproduce --list' shows all.")
    recipe = find_recipe(name, scale, preset)
    folder = out or Path("runs/reproduce" if scale == "full" else "runs/reproduce-small")
    check_folder(folder)
    check_choice("--device", device, ("auto", "cpu", "cuda"))
    if solver is not None:
        check_choice("--solver", solver, ("converged", "sgd"))
    console = make_console()
    console.print(f"{recipe.name}: {recipe.what}")
    if scale == "small":
        console.print("Small scale: the numbers show that it works; do not compare them with the published ones.")
    if lines := differences(recipe):
        print_lines(console, ["Differences from the published runs:", *(f"- {line}" for line in lines)])
    common = _Common(console, folder, root, encoder, skip_missing, skip_bad_files, dry_run)
    if isinstance(recipe, CostRecipe):
        from momentalign.cli._bench import bench

        bench(
            device=find_device(device), out=folder / "costs.json", quick=scale == "small", paper=True, dry_run=dry_run
        )
    elif isinstance(recipe, SweepRecipe):
        _run_sweep(recipe, common, retry_failed=retry_failed, jobs=jobs, device=device, per_gpu=per_gpu)
    elif isinstance(recipe, ProbingRecipe):
        _run_probes(recipe, common, features=features, solver=solver, device=find_device(device))


@dataclass(frozen=True)
class _Common:
    """Console and options that sweeps and probes share."""

    console: Console
    out: Path
    root: Path | None
    encoder: str | None
    skip_missing: bool
    skip_bad_files: bool
    dry_run: bool


def _print_list(root: Path | None) -> None:
    from momentalign.reproduce import SweepRecipe, find_recipe, missing_data, recipe_names

    table = names_table("recipe", "runs", "data", "result")
    for name in recipe_names():
        recipe = find_recipe(name)
        absent = [one.dataset for one in missing_data(recipe, root)]
        runs = f"{recipe.runs:,}" if isinstance(recipe, SweepRecipe) else "–"
        data = f"missing: {', '.join(absent)}" if absent else "available" if recipe.datasets else "none needed"
        table.add_row(name, runs, data, recipe.what)
    make_console().print(table)


def _run_sweep(
    recipe: "SweepRecipe", common: _Common, *, retry_failed: bool, jobs: int | None, device: str, per_gpu: int
) -> None:
    """Train the runs of a fine-tuning table or figure and print its tables; exit code 1 if runs failed."""
    from momentalign._format import pluralize
    from momentalign.reproduce import plan_of, results_of, sweep_commands

    if not common.dry_run:
        from momentalign.report import write_report  # takes seconds; before training, in case a package is missing
    console, out, root = common.console, common.out, common.root
    console.print(f"{recipe.runs:,} runs: {', '.join(recipe.datasets)}; {', '.join(recipe.algorithms)}.")
    absent = _print_missing(recipe, common)
    if absent is None:
        return
    recipe = recipe.without(absent)
    console.print("Equivalent commands, for example for a Ray cluster:")
    print_lines(console, (f"  {line}" for line in sweep_commands(recipe, out, common.encoder, root)))
    with print_warnings(console):
        plan = plan_of(recipe, root=root, encoder=common.encoder)
        engine = make_engine("local", out, jobs=jobs, device=device, per_gpu=per_gpu)
        options: dict[str, Any] = {"root": root, "retry_failed": retry_failed, "skip_bad_files": common.skip_bad_files}
        options |= {"keep_weights": False, "dry_run": common.dry_run}
        tally = run_plan(console, plan, engine, out, **options)
    if tally is None:
        return
    results = results_of(plan, out)
    for rule in recipe.rules:
        print_table(console, results, rule)
    figures = out / "figures" / recipe.name if recipe.figure else None
    with share_bar(console) as progress:
        page = write_report(results, out / f"{recipe.name}.html", figures, title=recipe.what, progress=progress)[0]
    print_notes(console, tally, results.problems)
    if figures is not None:
        console.print(f"Saved the figure to {figures}, as {recipe.figure}-*.png, .svg and .pdf.")
    console.print(f"Saved the page to {page} and the runs to {out}.")
    if tally.failed:
        advice = "" if retry_failed else " Add --retry-failed to the same command to retry them."
        console.print(f"{pluralize(len(tally.failed), 'run')} failed.{advice}")
        raise typer.Exit(1)


def _run_probes(
    recipe: "ProbingRecipe", common: _Common, *, features: Path | None, solver: str | None, device: str
) -> None:
    """Compute the features of a probing table or figure, probe them, and print the results."""
    from momentalign.reproduce import check_features, features_path

    console = common.console
    if recipe.preset == "released" and solver == "converged":
        raise ValueError("'--preset released' probes by SGD, as the public code does. Omit --solver converged.")
    if features is not None:
        if len(recipe.datasets) > 1:
            raise ValueError(
                f"'--features' is one file, but {recipe.name} probes {', '.join(recipe.datasets)}. Name one."
            )
        check_features(features, recipe.datasets[0])
    names = ", ".join(recipe.methods)
    console.print(f"Linear probes of {', '.join(recipe.datasets)} on {recipe.seeds} seeds: {names}.")
    absent = [] if features is not None else _print_missing(recipe, common)
    if absent is None:
        return
    available = recipe.without(absent).datasets
    for name in available:
        path = features or features_path(recipe, name, common.out)
        if path.exists():
            console.print(f"{name}: uses the features in {path}.")
            continue
        how = ", fine-tuned first" if name == "multinli" else ""
        how += f" on each of {recipe.seeds} seeds" if recipe.encoders(name) > 1 else ""
        limit = f", at most {recipe.rows} rows of each group and split" if recipe.rows else ""
        encoder = common.encoder or recipe.encoder(name)
        console.print(f"{name}: features by {encoder}{how}{limit}, on {device}, saved to {path}.")
    if common.dry_run:
        console.print("Nothing was run.")
        return
    message = "Interrupted. Finished features are saved; run the same command again to resume."
    with exit_on_interrupt(console, message):
        for name in available:
            _probe(recipe, name, common, features, solver or recipe.solver, device)


def _probe(
    recipe: "ProbingRecipe", name: str, common: _Common, features: Path | None, solver: str, device: str
) -> None:
    """Probe one data set of a recipe."""
    from momentalign._csv import frame_csv
    from momentalign._format import join_first
    from momentalign._outputs import write_output
    from momentalign.report import write_report
    from momentalign.reproduce import make_features, probe_curves, probe_table

    console, out = common.console, common.out
    with print_warnings(console), share_bar(console) as progress:
        options: dict[str, Any] = {"root": common.root, "skip_bad_files": common.skip_bad_files, "device": device}
        options |= {"encoder": common.encoder, "progress": progress}
        seeds = range(recipe.encoders(name))
        paths = [features] if features else [make_features(recipe, name, out, seed=seed, **options) for seed in seeds]
        if recipe.figure:
            sweep = probe_curves(recipe, paths[0], out, progress=progress)
            figures = out / "figures" / recipe.name
            page = write_report(sweep, out / f"{recipe.name}.html", figures, title=recipe.what)[0]
            console.print(f"Saved the page to {page} and the figure to {figures}, as terms-*.png, .svg and .pdf.")
            return
        result = probe_table(recipe, name, paths, solver=solver, progress=progress)
    console.print()
    print_block(console, str(result))
    table = out / f"{result.name}-{solver}.csv"
    write_output(table, frame_csv(result.to_frame(), index=True))
    write_output(table.with_name(f"{result.name}-{solver}-grid.csv"), frame_csv(result.fits))
    where = join_first([str(path) for path in paths])
    console.print(f"Saved the table to {table} and all fits beside it; the features are in {where}.")


def _print_missing(recipe: "PaperRecipe", common: _Common) -> list[str] | None:
    """Print which data are missing; names to leave out, or None if there is nothing to run."""
    from momentalign.reproduce import missing_data

    absent, number = missing_data(recipe, common.root), len(recipe.datasets)
    print_lines(common.console, map(str, absent))
    if not absent or (common.skip_missing and len(absent) < number):
        return [one.dataset for one in absent]
    common.console.print("Nothing was run." + (" --skip-missing runs the rest." if len(absent) < number else ""))
    if common.dry_run:
        return None
    raise typer.Exit(2)
