"""`momentalign probe`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from momentalign._format import format_duration
from momentalign.cli._training_output import Notes

if TYPE_CHECKING:
    from momentalign.probing import TableScores


def probe(
    path: Annotated[Path | None, typer.Argument(help="A .csv, .csv.gz, .parquet or .npz file.")] = None,
    target: Annotated[str, typer.Option(help="Column of the labels.")] = "y",
    domain: Annotated[str, typer.Option(help="Column that says where a row came from.")] = "domain",
    group: Annotated[
        str | None, typer.Option(help="Column of the groups whose worst counts. [default: group, if there is one]")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Column that says train, val or test. [default: split, if there is one]")
    ] = None,
    test_domain: Annotated[str | None, typer.Option(help="Domain to hold out and test on.")] = None,
    task: Annotated[str, typer.Option(help="classification, regression, or auto: by what the labels are.")] = "auto",
    components: Annotated[
        int | None, typer.Option(help="Principal components to keep of wider features; all columns if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of folds.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the model; file of the predictions. [default: runs/probe]"),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Folder of a model, to predict with.")] = None,
    predict: Annotated[Path | None, typer.Option(help="File of new rows to predict.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be fitted, and stop.")] = False,
) -> None:
    """Fit a linear model that holds up on new domains, beside the plain one; or predict new rows with one."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if model is not None or predict is not None:
        if model is None or predict is None or path is not None:
            raise ValueError("To predict, give --model FOLDER --predict FILE and no other file.")
        _predict(console, model, predict, Path("predictions.csv") if out is None else out, dry_run)
        return
    if path is None:
        raise ValueError("Name a file to fit, or --model FOLDER --predict FILE to predict.")
    from momentalign.probing import TableProbe, check_folder, write_probe

    folder = Path("runs/probe") if out is None else out
    check_folder(folder)
    plan = TableProbe(
        path,
        target=target,
        domain=domain,
        group=group,
        split=split,
        test_domain=test_domain,
        task=task,
        components=components,
        seed=seed,
    )
    for line in plan.lines:
        console.print(line)
    console.print(f"This takes {format_duration(plan.seconds())}, estimated.")
    if dry_run:
        console.print("Nothing was written.")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    try:
        with (
            Notes(console),
            Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        ):
            shown = progress.add_task("", total=1.0)
            result = plan.run(lambda part, share: progress.update(shown, description=part, completed=share))
    except KeyboardInterrupt:
        console.print("Interrupted. Nothing was written.")
        raise typer.Exit(130) from None
    for line in result.notes:
        console.print(line)
    console.print(_table(result.scores))
    console.print(
        "Chosen inside the training domains: " + ", ".join(f"{k} {v}" for k, v in result.chosen.items()) + "."
    )
    if not any(value for name, value in result.chosen.items() if name.endswith("_weight")):
        console.print("No alignment did better there than none: what differs from the plain model is its L2.")
    write_probe(result, folder)
    console.print(
        f"Model and scores lie in {folder}. Next: momentalign probe --model {shlex.quote(str(folder))} "
        "--predict NEW_ROWS.csv -o predictions.csv"
    )


def _predict(console: Console, model: Path, rows: Path, out: Path, dry_run: bool) -> None:
    from momentalign.probing import ProbeModel, predict_file

    loaded = ProbeModel.load(model)
    if dry_run:
        kind = "a number" if loaded.classes is None else f"one of {', '.join(loaded.classes)}"
        console.print(f"{model} takes {len(loaded.columns)} columns and predicts {kind}. Nothing was written.")
        return
    done = predict_file(loaded, rows, out)
    for line in done.notes:
        console.print(line)
    console.print(f"{done.rows} rows of {rows.name} were predicted. The answers lie in {out}.")


def _table(scores: "TableScores") -> Table:
    percent = scores.metrics == ("accuracy",)
    titles = {"accuracy": "", "r2": " R²", "rmse": " RMSE"}
    table = Table(title=("Accuracy in %" if percent else "R² and RMSE") + " on rows that were not fitted")
    table.title_justify = "left"
    table.add_column("")
    table.add_column("rows", justify="right")
    for metric in scores.metrics:
        for name in scores.models:
            table.add_column(name + titles[metric], justify="right")
    domains = sum(kind == "domain" for kind, _, _ in scores.rows)
    for place, ((_, name, size), values) in enumerate(zip(scores.rows, scores.values, strict=True), 1):
        cells = [_number(value, percent) for value in values.T.ravel()]
        table.add_row(name, str(size), *cells, end_section=place == domains)
    return table


def _number(value: float, percent: bool) -> str:
    return "–" if value != value else f"{100 * value:.1f}" if percent else f"{value:.4g}"
