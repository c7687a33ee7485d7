"""`momentalign evaluate`."""

import csv
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from momentalign.cli._settings import find_device
from momentalign.cli._training_output import Notes, accuracy_table


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run.")],
    dataset: Annotated[str, typer.Argument(help="Name of a data set, a folder domain/class/image, or a table.")],
    root: Annotated[Path | None, typer.Option(help="Data folder. [default: $MOMENTALIGN_DATA]")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:1 and so on.")] = "auto",
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows at a time.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that read images.")] = None,
    skip_bad_files: Annotated[bool, typer.Option("--skip-bad-files", help="Leave out unreadable images.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the numbers go, as CSV.")] = None,
) -> None:
    """Try a trained run on any data set with its classes: accuracy per domain, and of the worst group."""
    from momentalign._files import atomic_file, check_output
    from momentalign.training import Score, find_position, read_run
    from momentalign.training import evaluate as score

    device = find_device(device)
    if out is not None:
        check_output(out, (".csv",), inputs=[Path(dataset).expanduser()])
    console = Console(highlight=False, markup=False, soft_wrap=True)
    about = read_run(run)
    config = about["config"]
    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with (
            Notes(console),
            Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        ):
            task = progress.add_task("")
            scores = score(
                run,
                dataset,
                root=root,
                device=device,
                batch_size=batch_size,
                workers=workers,
                skip_bad_files=skip_bad_files,
                progress=lambda done, rows: progress.update(task, completed=done, total=rows),
            )
    except KeyboardInterrupt:
        console.print("Interrupted. Nothing was written.")
        raise typer.Exit(130) from None
    own = config["dataset"] in (dataset, str(Path(dataset).expanduser().resolve()))
    shown = [found._asdict() | {"split": found.split or "all"} for found in scores]
    console.print(accuracy_table(shown, config["test_domains"] if own else []))
    for found in scores:
        if found.metric == "group_accuracy":
            console.print(f"  {found.split}, {found.group}: {100 * found.value:.1f} ({found.rows} rows)")
    if own:
        console.print("The run was trained on the first split of the domains without a *.")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(out) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(Score._fields)
            writer.writerows(scores)
        console.print(f"Written to {out}.")
    if about["status"] != "finished":
        step = find_position(run).step
        console.print(f"The run is not finished: these are its weights after {step} of {config['steps']} steps.")
    console.print(f"In Python: momentalign.load({str(run)!r}) is the network with its preprocessing.")
