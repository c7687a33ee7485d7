"""`momentalign probe`."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from momentalign._format import format_duration
from momentalign.cli._options import TABLE_HELP, DomainOption, GroupOption, SplitOption, TargetOption
from momentalign.cli._output import exit_on_interrupt, make_console, print_warnings, share_bar

if TYPE_CHECKING:
    from momentalign.sklearn import GroupReport
    from momentalign.tables import TableScores


def probe(
    path: Annotated[Path | None, typer.Argument(help=TABLE_HELP)] = None,
    target: TargetOption = "y",
    domain: DomainOption = "domain",
    group: GroupOption = None,
    split: SplitOption = None,
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
    """Fit a linear model that transfers to new domains and compare it with a plain one; or predict new rows."""
    console = make_console()
    if model is not None or predict is not None:
        if model is None or predict is None or path is not None:
            raise ValueError("To predict, give --model FOLDER --predict FILE and no other file.")
        _predict(console, model, predict, Path("predictions.csv") if out is None else out, id_column, dry_run)
        return
    if id_column is not None:
        raise ValueError("'--id' is for --predict. Omit it.")
    if path is None:
        raise ValueError("Name a file to fit, or --model FOLDER --predict FILE to predict.")
    from momentalign.tables import check_model_folder, plan_probe, write_probe

    folder = Path("runs/probe") if out is None else out
    check_model_folder(folder)
    plan = plan_probe(
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
    if not overwrite:
        plan.check_output(folder)
    for line in plan.lines:
        console.print(line)
    console.print(f"Estimated time: {format_duration(plan.seconds())}.")
    if dry_run:
        console.print("Nothing was written.")
        return
    interrupted = exit_on_interrupt(console, "Interrupted. Nothing was written.")
    with interrupted, print_warnings(console), share_bar(console) as progress:
        result = plan.run(progress)
    for line in result.notes:
        console.print(line)
    console.print(_table(result.scores))
    if result.scores.groups:
        _print_groups(console, result.scores.groups)
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


def _predict(console: Console, model: Path, rows: Path, out: Path, id_column: str | None, dry_run: bool) -> None:
    from momentalign.tables import TableModel, predict_file

    loaded = TableModel.load(model)
    if dry_run:
        kind = "a number" if loaded.classes is None else f"one of {', '.join(loaded.classes)}"
        columns = len(loaded.encoder.columns)
        console.print(f"{model} takes {columns} columns and predicts {kind}. Nothing was written.")
        return
    predicted = predict_file(loaded, rows, out, id_column=id_column)
    for note in predicted.notes:
        console.print(note)
    if predicted.scores is not None:
        console.print(_table(predicted.scores, "rows with a label"))
    console.print(f"Saved the predictions of {predicted.rows} rows of {rows.name} to {out}.")


def _table(scores: "TableScores", rows: str = "held-out rows") -> Table:
    percent = scores.metrics == ("accuracy",)
    titles = {"accuracy": "", "r2": " R²", "rmse": " RMSE"}
    table = Table(title=("Accuracy in %" if percent else "R² and RMSE") + f" on {rows}", title_justify="left")
    table.add_column("")
    table.add_column("rows", justify="right")
    for metric in scores.metrics:
        for name in scores.models:
            table.add_column(name + titles[metric], justify="right")
    domains = sum(kind == "domain" for kind, _, _ in scores.rows)
    for number, ((_, name, size), values) in enumerate(zip(scores.rows, scores.values, strict=True), 1):
        cells = [_number(value, percent) for value in values.T.ravel()]
        table.add_row(name, str(size), *cells, end_section=number == domains)
    return table


def _print_groups(console: Console, groups: "Mapping[str, GroupReport]") -> None:
    """Measures over groups of each model, then the accuracy of each group."""
    from momentalign._worst_group import GROUP_MEASURES

    reports = list(groups.values())
    first, rows = reports[0], sum(group.rows for group in reports[0].groups)
    table = Table(title="Measures over groups in % on held-out rows", title_justify="left")
    table.add_column("")
    table.add_column("rows", justify="right")
    for name in groups:
        table.add_column(name, justify="right")
    for metric, label in GROUP_MEASURES.items():
        values = [_number(report.metrics().get(metric, math.nan), percent=True) for report in reports]
        table.add_row(label, str(rows), *values, end_section=metric == "calibration_error")
        if metric == "worst_group_accuracy":
            ends = [f"{100 * report.worst_group.low:.1f} to {100 * report.worst_group.high:.1f}" for report in reports]
            table.add_row(f"  {100 * first.confidence:g}% interval", "", *ends)
            table.add_row("  which", "", *(report.worst_group.name for report in reports))
    for number, group in enumerate(first.groups):
        values = [_number(report.groups[number].accuracy, percent=True) for report in reports]
        table.add_row(group.name, str(group.rows), *values)
    console.print(table)
    console.print(
        "average: over all rows. weighted average: of the groups, by their shares of the training rows. balanced "
        f"accuracy: mean over classes. calibration error: {first.bins} bins of equal width."
    )
    for note in dict.fromkeys(note for report in reports for note in report.notes):
        console.print(note)


def _number(value: float, percent: bool) -> str:
    return "–" if value != value else f"{100 * value:.1f}" if percent else f"{value:.4g}"
