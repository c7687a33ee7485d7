"""`momentalign embed`."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from momentalign._format import format_duration
from momentalign._machine import available_cores
from momentalign.cli._settings import find_device
from momentalign.cli._training_output import Notes


def embed(
    source: Annotated[str, typer.Argument(help="Name of a data set, or a folder domain/class/image.")],
    encoder: Annotated[
        str,
        typer.Option(
            help="hf:NAME, a folder in Hugging Face format, hf-config:FOLDER, or the folder of a trained run."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the features go: .parquet or .npz.")] = Path(
        "features.parquet"
    ),
    batch_size: Annotated[int, typer.Option(help="Rows at a time.", min=1)] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, or cuda:1 and so on.")] = "auto",
    root: Annotated[
        Path | None, typer.Option(help="Data folder; $MOMENTALIGN_DATA or ~/.cache/momentalign if not given.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that decode images; none on a CPU if not given.", min=0)
    ] = None,
    with_split: Annotated[
        bool, typer.Option("--with-split", help="Write the in and out splits of the protocol too, those of trial 0.")
    ] = False,
    skip_bad_files: Annotated[
        bool, typer.Option("--skip-bad-files", help="Leave out images that cannot be decoded, after trying all.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Load encoder and data, say what it would cost, and stop.")
    ] = False,
) -> None:
    """Features of a data set from a fixed encoder, written to a file that probe and diagnose read."""
    from momentalign._files import check_output
    from momentalign.data import load_dataset
    from momentalign.encoders import Embedding, build_encoder

    check_output(out, (".parquet", ".npz"), inputs=[Path(source).expanduser()])
    where = find_device(device)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with Notes(console):
        dataset = load_dataset(source, root=root, skip_bad=skip_bad_files)
        model = build_encoder(encoder, dataset)
    if workers is None:
        workers = 0 if where == "cpu" else min(8, available_cores())
    splits = True if with_split else None
    how: dict[str, Any] = {"batch_size": batch_size, "device": where, "workers": workers, "splits": splits}
    work = Embedding(dataset, model, out, fewer_rows=skip_bad_files, **how)
    for note in model.notes:
        console.print(note)
    domains, width = len(dataset.names), model.num_features
    console.print(f"{dataset.name}: {work.rows} rows of {domains} domains, {width} features each from {encoder}.")
    following = f"Next: momentalign {'probe' if 'train' in dataset.split_names else 'diagnose'} {shlex.quote(str(out))}"
    if work.done == work.rows and out.exists():
        console.print(f"All of them lie in {out} already. {following}")
        return
    before = f" {work.done} rows were done before." if work.done else ""
    size = 4 * work.rows * width / 2**20
    console.print(f"About {format_duration(work.seconds_left())} on {where}, and {size:.0f} MiB in {out}.{before}")
    if dry_run:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done = work.done
    try:
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("Embedding", total=work.rows, completed=done)

            def progress(finished: int, total: int) -> None:
                nonlocal done
                done = finished
                bar.update(task, completed=finished)

            work.run(progress)
    except KeyboardInterrupt:
        console.print(f"Interrupted after {done} of {work.rows} rows. Run the same command again to go on.")
        raise typer.Exit(130) from None
    console.print(f"The features lie in {out}. {following}")
