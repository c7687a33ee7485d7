"""`momentalign evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from momentalign.cli._options import (
    DatasetArgument,
    DeviceOption,
    RootOption,
    SkipBadFilesOption,
    WorkersOption,
    find_device,
)
from momentalign.cli._output import (
    exit_on_interrupt,
    make_console,
    print_warnings,
    progress_bar,
    score_table,
)


def evaluate_command(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run.", show_default=False)],
    dataset: DatasetArgument,
    root: RootOption = None,
    device: DeviceOption = "auto",
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows per batch.")] = None,
    workers: WorkersOption = None,
    skip_bad_files: SkipBadFilesOption = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file for the scores.")] = None,
) -> None:
    """Evaluate a trained run on any data set with its classes: accuracy per domain and of the worst group."""
    from momentalign._csv import csv_text
    from momentalign._files import atomic_write, check_output
    from momentalign.runs import RunState, read_run, weights_note
    from momentalign.training import Score, evaluate, find_position

    device = find_device(device)
    if out is not None:
        check_output(out, (".csv",), inputs=[Path(dataset).expanduser()])
    console = make_console()
    about = read_run(run)
    config = about["config"]
    with (
        exit_on_interrupt(console, "Interrupted. Nothing was written."),
        print_warnings(console),
        progress_bar(console) as bar,
    ):
        task = bar.add_task("rows")
        scores = evaluate(
            run,
            dataset,
            root=root,
            device=device,
            batch_size=batch_size,
            workers=workers,
            skip_bad_files=skip_bad_files,
            progress=lambda done, rows: bar.update(task, completed=done, total=rows),
        )
    is_own_data = config["dataset"] in (dataset, str(Path(dataset).expanduser().resolve()))
    shown = [score._asdict() | {"split": score.split or "all"} for score in scores]
    console.print(score_table(shown, config["test_domains"] if is_own_data else []))
    for score in scores:
        if score.metric == "group_accuracy":
            console.print(f"  {score.split}, {score.group}: {100 * score.value:.1f} ({score.rows} rows)")
    if is_own_data:
        console.print("The run was trained on the first split of the domains without a *.")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(out, csv_text([Score._fields, *scores]))
        console.print(f"Saved the scores to {out}.")
    if about["status"] is not RunState.FINISHED:
        step = find_position(run).step
        console.print(f"The run is not finished: these are its weights after {step} of {config['steps']} steps.")
    elif about.get("weights"):
        note = weights_note(about["weights"], config["steps"])
        if note is not None:
            console.print(note)
    console.print(f"In Python: momentalign.load({str(run)!r}) loads the network with its preprocessing.")
