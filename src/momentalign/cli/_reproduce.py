"""`momentalign reproduce`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from momentalign.cli._training_output import Notes

if TYPE_CHECKING:
    from momentalign.reproduce import ProbeRecipe, SweepRecipe
    from momentalign.reproduce._needs import Missing
    from momentalign.reproduce._probes import Tell


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A recipe; --list shows all.", show_default=False)] = None,
    list_: Annotated[bool, typer.Option("--list", help="All recipes, and whether their data are here.")] = False,
    scale: Annotated[
        str, typer.Option(help="full: as in the paper. small: shorter and fewer runs, to see that it works.")
    ] = "full",
    encoder: Annotated[
        str | None, typer.Option(help="In place of the paper's, for images and texts.", show_default=False)
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Of a probe: a file of features that you have already.", show_default=False)
    ] = None,
    solver: Annotated[str, typer.Option(help="Of a probe: converged, or sgd for the paper's optimiser.")] = "converged",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out data sets that are not here.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where runs and results go. [default: runs/reproduce, or -small]"),
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Data folder. [default: $MOMENTALIGN_DATA]")] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at once. [default: one a core, or a GPU]")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    per_gpu: Annotated[int, typer.Option(help="Runs that share a GPU.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run and what is missing.")] = False,
) -> None:
    """A table or figure of the paper: its recipe, run here, beside the published numbers."""
    from momentalign.reproduce import CostRecipe, SweepRecipe, find_recipe, missing_data

    console = Console(highlight=False, markup=False, soft_wrap=True)
    if list_:
        _show_list(root)
        return
    if name is None:
        raise ValueError("Name a recipe: 'momentalign reproduce --list' shows all.")
    recipe = find_recipe(name, scale)
    folder = out or Path("runs/reproduce" if scale == "full" else "runs/reproduce-small")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"'--out' should name a folder, but {folder} is a file.")
    console.print(f"{recipe.name}: {recipe.what}")
    if scale == "small":
        console.print("At small scale: the numbers show that it works, and are not to be held against the published.")
    if isinstance(recipe, CostRecipe):
        from momentalign.cli._bench import bench

        where = "cuda" if device == "auto" and _has_gpu() else device.replace("auto", "cpu")
        bench(device=where, out=folder / "costs.json", quick=scale == "small", paper=True, dry_run=dry_run)
        return
    absent = [] if features is not None else missing_data(recipe, root)
    if isinstance(recipe, SweepRecipe):
        if features is not None:
            raise ValueError(f"'--features' is for probes, but {recipe.name} trains encoders.")
        _sweep(console, recipe, absent, skip_missing, encoder, folder, root, jobs, device, per_gpu, dry_run)
    else:
        _probe(console, recipe, absent, skip_missing, encoder, features, solver, folder, root, device, dry_run)


def _sweep(
    console: Console,
    recipe: "SweepRecipe",
    absent: "list[Missing]",
    skip_missing: bool,
    encoder: str | None,
    out: Path,
    root: Path | None,
    jobs: int | None,
    device: str,
    per_gpu: int,
    dry_run: bool,
) -> None:
    from momentalign.cli._sweep import _announce, _Bar, _engine
    from momentalign.report import accuracy_table, write_report
    from momentalign.reproduce import plan_of, results_of
    from momentalign.reproduce._sweeps import by_hand, without
    from momentalign.sweep import run_sweep

    console.print(f"{recipe.runs} runs: {', '.join(recipe.datasets)}; {', '.join(recipe.algorithms)}.")
    if not _go_on(console, absent, skip_missing, len(recipe.datasets), dry_run):
        return
    recipe = without(recipe, [one.dataset for one in absent])
    console.print("The same by hand, for instance on a Ray cluster:")
    for line in by_hand(recipe, out, encoder):
        console.print(f"  {line}")
    with Notes(console):
        plan = plan_of(recipe, root=root, encoder=encoder)
        engine = _engine("local", out, jobs, device, per_gpu, None, 1)
        try:
            _announce(console, plan, engine, out, root=root, retry_failed=False, weights=False)
            if dry_run:
                console.print("Nothing was run.")
                return
            with _Bar(console, plan) as bar:
                run_sweep(plan, out, engine, root=root, keep_weights=False, watch=bar.show)
        except KeyboardInterrupt:
            console.print("Interrupted. Run the same command again to go on.")
            raise typer.Exit(130) from None
        finally:
            engine.close()
    results = results_of(plan, out)
    for rule in recipe.rules:
        console.print()
        console.print(accuracy_table(results, rule).to_text(), end="")
    figures = out / "figures" / recipe.name if recipe.figure else None
    with _bar(console) as tell:
        page = write_report(results, out / f"{recipe.name}.html", figures, title=recipe.what, progress=tell)[0]
    for problem in results.problems:
        console.print(problem)
    if figures is not None:
        console.print(f"The figure lies in {figures}, as {recipe.figure}-*.png, .svg and .pdf.")
    console.print(f"The page lies at {page}, the runs in {out}.")


def _probe(
    console: Console,
    recipe: "ProbeRecipe",
    absent: "list[Missing]",
    skip_missing: bool,
    encoder: str | None,
    features: Path | None,
    solver: str,
    out: Path,
    root: Path | None,
    device: str,
    dry_run: bool,
) -> None:
    from momentalign._files import write_whole
    from momentalign.report import write_report
    from momentalign.reproduce import make_features, probe_curves, probe_table

    if features is not None and len(recipe.datasets) > 1:
        raise ValueError(f"'--features' is one file, but {recipe.name} probes {', '.join(recipe.datasets)}. Name one.")
    if features is not None and not features.exists():
        raise ValueError(f"'--features': {features} does not exist.")
    names = ", ".join(recipe.methods)
    console.print(f"Linear probes of {', '.join(recipe.datasets)} on {recipe.seeds} seeds: {names}.")
    if not _go_on(console, absent, skip_missing, len(recipe.datasets), dry_run):
        return
    here = [name for name in recipe.datasets if name not in {one.dataset for one in absent}]
    where = "cuda" if device == "auto" and _has_gpu() else device.replace("auto", "cpu")
    if features is None:
        for name in here:
            how = ", fine-tuned first" if name == "multinli" else ""
            console.print(f"{name}: features by {encoder or recipe.encoder(name)}{how}, on {where}, kept in {out}.")
    if dry_run:
        console.print("Nothing was run.")
        return
    try:
        for name in here:
            with _bar(console) as tell:
                path = features or make_features(recipe, name, out, root=root, encoder=encoder, device=where, tell=tell)
                if recipe.figure:
                    sweep = probe_curves(recipe, path, out, tell=tell)
                    figures = out / "figures" / recipe.name
                    page = write_report(sweep, out / f"{recipe.name}.html", figures, title=recipe.what)[0]
                    console.print(f"The page lies at {page}, the figure in {figures}, as terms-*.png, .svg and .pdf.")
                    continue
                result = probe_table(recipe, name, path, solver=solver, tell=tell)
            console.print(str(result))
            table = out / f"{name}-{solver}.csv"
            table.parent.mkdir(parents=True, exist_ok=True)
            write_whole(table, result.to_frame().to_csv())
            write_whole(table.with_name(f"{name}-{solver}-grid.csv"), result.grid_frame().to_csv(index=False))
            console.print(f"The numbers lie in {table}, all fits beside them.")
    except KeyboardInterrupt:
        console.print("Interrupted. Features that are done are kept; run the same command again.")
        raise typer.Exit(130) from None


def _go_on(console: Console, absent: "list[Missing]", skip: bool, number: int, dry_run: bool) -> bool:
    """Say what is missing; whether anything is left to do."""
    for one in absent:
        console.print(str(one))
    if not absent or (skip and len(absent) < number):
        return True
    console.print("Nothing was run." + (" --skip-missing does the rest." if len(absent) < number else ""))
    if dry_run:
        return False
    raise typer.Exit(2)


def _show_list(root: Path | None) -> None:
    from rich.table import Table

    from momentalign.reproduce import SweepRecipe, find_recipe, missing_data, recipe_names

    table = Table(box=None, pad_edge=False)
    for column in ("recipe", "runs", "data", "what it gives"):
        table.add_column(column, overflow="fold")
    for name in recipe_names():
        recipe = find_recipe(name)
        absent = [one.dataset for one in missing_data(recipe, root)]
        runs = f"{recipe.runs:,}" if isinstance(recipe, SweepRecipe) else "–"
        table.add_row(name, runs, f"missing: {', '.join(absent)}" if absent else "here", recipe.what)
    Console(highlight=False).print(table)


@contextmanager
def _bar(console: Console) -> "Iterator[Tell]":
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda part, share: progress.update(task, description=part, completed=share)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
