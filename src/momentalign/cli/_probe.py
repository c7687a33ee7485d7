"""`momentalign probe`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from momentalign._format import format_duration
from momentalign._table_spec import spec_path
from momentalign.cli._options import option_groups
from momentalign.cli._output import exit_on_interrupt, make_console, print_lines, print_warnings, share_bar
from momentalign.cli._table_options import TABLE_HELP, TableOptions, check_exists
from momentalign.cli._table_scores import print_fitted_note, print_scores


@option_groups
def probe(
    *,
    path: Annotated[Path | None, typer.Argument(help=TABLE_HELP)] = None,
    table: TableOptions,
    test_domain: Annotated[str | None, typer.Option(help="Domain to hold out and test on.")] = None,
    task: Annotated[str, typer.Option(help="classification, regression, or auto: by the labels.")] = "auto",
    components: Annotated[
        int | None, typer.Option(help="Principal components to keep of wider features.", show_default="all columns")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the model; file of the predictions.", show_default="runs/probe"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another model in the folder.")] = False,
    model: Annotated[Path | None, typer.Option(help="Folder of a saved model, to predict with.")] = None,
    predict: Annotated[Path | None, typer.Option(help="File of new rows to predict.")] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", help="Column of the new rows to copy to the predictions.", show_default="id and file, if any"
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
) -> None:
    """Fit a linear model chosen on left-out domains, and compare it with plain regression; or predict new rows."""
    console = make_console()
    if model is not None or predict is not None:
        if model is None or predict is None:
            raise ValueError("To predict, give --model FOLDER --predict FILE.")
        target = Path("predictions.csv") if out is None else out
        _predict(console, model, predict, target, table, id_column=id_column, dry_run=dry_run)
        return
    if path is None:
        raise ValueError("Name a file to fit, or --model FOLDER --predict FILE to predict.")
    check_exists(path)
    from momentalign.tables import check_model_folder, plan_probe, write_probe

    folder = Path("runs/probe") if out is None else out
    check_model_folder(folder)
    plan = plan_probe(path, test_domain=test_domain, task=task, components=components, seed=seed, **table)
    if not overwrite:
        plan.check_output(folder)
    print_lines(console, plan.lines)
    with print_warnings(console):
        console.print(f"Estimated time: {format_duration(plan.seconds())}.")
    if dry_run:
        console.print("Nothing was written.")
        return
    interrupted = exit_on_interrupt(console, "Interrupted. Nothing was written.")
    with interrupted, print_warnings(console), share_bar(console) as progress:
        result = plan.run(progress)
    print_lines(console, result.notes)
    print_scores(console, result.scores, "held-out rows")
    chosen = ", ".join(
        f"{name} {value if isinstance(value, bool | str) else f'{value:.4g}'}" for name, value in result.chosen.items()
    )
    console.print(f"Chosen inside the training domains: {chosen}.")
    console.print(result.reason)
    write_probe(result, folder)
    console.print(
        f"Saved model and scores to {folder}. Next: momentalign probe --model {shlex.quote(str(folder))} "
        "--predict NEW_ROWS.csv -o predictions.csv"
    )


def _predict(
    console: Console,
    model: Path,
    rows: Path,
    out: Path,
    table: TableOptions,
    *,
    id_column: str | None,
    dry_run: bool,
) -> None:
    check_exists(rows)
    from momentalign.tables import TableModel, predict_file

    loaded = TableModel.load(model)
    if dry_run:
        kind = "a number" if loaded.classes is None else f"one of {', '.join(loaded.classes)}"
        columns = len(loaded.encoder.columns)
        console.print(f"{model} takes {columns} columns and predicts {kind}. Nothing was written.")
        return
    predicted = predict_file(loaded, rows, out, id_column=id_column, **table)
    print_lines(console, predicted.notes)
    if predicted.scores is not None:
        print_scores(console, predicted.scores, "rows with a label")
        print_fitted_note(console, loaded, model, spec_path(str(rows)))
    order = "" if predicted.copied else ", in the same order; --id COLUMN copies a column"
    console.print(f"Saved the predictions of {predicted.rows} rows of {rows.name} to {out}{order}.")
