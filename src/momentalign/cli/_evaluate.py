"""`momentalign evaluate`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from momentalign.cli._options import DatasetArgument, DeviceOption, ReadingOptions, find_device, option_groups
from momentalign.cli._output import (
    exit_on_interrupt,
    make_console,
    print_lines,
    print_warnings,
    progress_bar,
    score_table,
    splits_note,
)
from momentalign.cli._table_options import TrainedTableOptions
from momentalign.cli._table_scores import print_fitted_note, print_scores


@option_groups
def evaluate_command(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of a model of 'probe'.", show_default=False)],
    dataset: DatasetArgument,
    table: TrainedTableOptions,
    reading: ReadingOptions,
    device: DeviceOption = "auto",
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows per batch.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file for the scores.")] = None,
) -> None:
    """Evaluate a trained model on any data set with its classes: scores per domain and of the worst group."""
    from momentalign._outputs import check_output, write_output
    from momentalign._table_spec import spec_path
    from momentalign.data import table_spec
    from momentalign.training import is_linear_model

    name = table_spec(dataset, **table)
    if out is not None:
        check_output(out, (".csv",), inputs=[Path(spec_path(dataset)).expanduser()])
    console = make_console()
    if is_linear_model(run):
        text = _evaluate_model(console, run, name)
    else:
        text = _evaluate_run(console, run, name, device=find_device(device), batch_size=batch_size, **reading)
    if out is not None:
        write_output(out, text)
        console.print(f"Saved the scores to {out}.")
    console.print(f"In Python: momentalign.load({str(run)!r}) loads the model with its preprocessing.")


def _evaluate_model(console: Console, folder: Path, dataset: str) -> str:
    """Print the scores of a linear model on a table; returns them as CSV."""
    from momentalign._table_spec import inherit_spec, spec_path, split_spec
    from momentalign.runs import read_run
    from momentalign.tables import TableModel, score_file

    model = TableModel.load(folder)
    if (folder / "run.json").exists():  # of the probing protocol, whose models do not name columns
        dataset = inherit_spec(dataset, split_spec(read_run(folder)["config"]["dataset"])[1])
    scores, notes = score_file(model, dataset)
    print_lines(console, notes)
    print_scores(console, scores, "rows with a label")
    print_fitted_note(console, model, folder, spec_path(dataset))
    return scores.to_csv()


def _evaluate_run(console: Console, run: Path, dataset: str, **options: Any) -> str:
    """Print the scores of a run's network, and which weights they are of; returns them as CSV."""
    from momentalign._csv import csv_text
    from momentalign._table_spec import inherit_spec, resolve_spec, split_spec
    from momentalign.runs import RunState, read_run, weights_note
    from momentalign.training import Score, evaluate, find_position

    about = read_run(run)
    config = about["config"]
    with (
        exit_on_interrupt(console, "Interrupted. Nothing was written."),
        print_warnings(console),
        progress_bar(console) as bar,
    ):
        task = bar.add_task("rows")
        scores = evaluate(
            run, dataset, progress=lambda done, rows: bar.update(task, completed=done, total=rows), **options
        )
    read_as = inherit_spec(dataset, split_spec(config["dataset"])[1])
    is_own_data = config["dataset"] in (read_as, resolve_spec(read_as))
    shown = [score._asdict() | {"split": score.split or "all"} for score in scores]
    console.print(score_table(shown, config["test_domains"] if is_own_data else []))
    for score in scores:
        if score.metric == "group_accuracy":
            console.print(f"  {score.split}, {score.group}: {100 * score.value:.1f} ({score.rows} rows)")
    if is_own_data:
        print_lines(console, [splits_note(shown, config["test_domains"])])
    if about["status"] is not RunState.FINISHED:
        step = find_position(run).step
        console.print(f"The run is not finished: these are its weights after {step} of {config['steps']} steps.")
    elif about.get("weights"):
        print_lines(console, [weights_note(about["weights"], config["steps"])])
    return csv_text([Score._fields, *scores])
