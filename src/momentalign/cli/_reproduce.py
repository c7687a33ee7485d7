"""`momentalign reproduce`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from momentalign.cli._options import (
    AcceleratorOption,
    JobsOption,
    PerGpuOption,
    RetryFailedOption,
    RootOption,
    SkipBadFilesOption,
    SolverOption,
    find_device,
)
from momentalign.cli._reproduce_runs import Choices, run_probe_recipe, run_sweep_recipe


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
    solver: SolverOption = "converged",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out data sets that are not here.")
    ] = False,
    skip_bad_files: SkipBadFilesOption = False,
    retry_failed: RetryFailedOption = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where runs and results go. [default: runs/reproduce, or -small]"),
    ] = None,
    root: RootOption = None,
    jobs: JobsOption = None,
    device: AcceleratorOption = "auto",
    per_gpu: PerGpuOption = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run and what is missing.")] = False,
) -> None:
    """A table or figure of the paper: its recipe, run here, beside the published numbers."""
    from momentalign.reproduce import CostRecipe, ProbingRecipe, SweepRecipe, find_recipe

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
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"'--device' should be auto, cpu or cuda, but is '{device}'.")
    if solver not in ("converged", "sgd"):
        raise ValueError(f"'--solver' should be converged or sgd, but is '{solver}'.")
    choices = Choices(
        folder,
        root=root,
        encoder=encoder,
        features=features,
        solver=solver,
        skip_missing=skip_missing,
        skip_bad_files=skip_bad_files,
        retry_failed=retry_failed,
        jobs=jobs,
        device=device,
        per_gpu=per_gpu,
        dry_run=dry_run,
    )
    if isinstance(recipe, SweepRecipe) and features is not None:
        raise ValueError(f"'--features' is for probes, but {recipe.name} trains encoders.")
    console.print(f"{recipe.name}: {recipe.what}")
    if scale == "small":
        console.print("At small scale: the numbers show that it works, and are not to be held against the published.")
    if isinstance(recipe, CostRecipe):
        from momentalign.cli._bench import bench

        bench(
            device=find_device(device), out=folder / "costs.json", quick=scale == "small", paper=True, dry_run=dry_run
        )
    elif isinstance(recipe, SweepRecipe):
        run_sweep_recipe(console, recipe, choices)
    elif isinstance(recipe, ProbingRecipe):
        run_probe_recipe(console, recipe, choices)


def _show_list(root: Path | None) -> None:
    from rich.table import Table

    from momentalign.reproduce import CostRecipe, SweepRecipe, find_recipe, missing_data, recipe_names

    table = Table(box=None, pad_edge=False)
    for column in ("recipe", "runs", "data", "what it gives"):
        table.add_column(column, overflow="fold")
    for name in recipe_names():
        recipe = find_recipe(name)
        absent = [one.dataset for one in missing_data(recipe, root)]
        runs = f"{recipe.runs:,}" if isinstance(recipe, SweepRecipe) else "–"
        data = f"missing: {', '.join(absent)}" if absent else "here"
        table.add_row(name, runs, "none needed" if isinstance(recipe, CostRecipe) else data, recipe.what)
    Console(highlight=False).print(table)
