"""`momentalign embed`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from momentalign._machine import available_cores
from momentalign._table_spec import spec_path
from momentalign.cli._options import DatasetArgument, DeviceOption, ReadingOptions, find_device, option_groups
from momentalign.cli._output import exit_on_interrupt, make_console, print_lines, print_warnings, progress_bar
from momentalign.cli._table_options import TableOptions, check_dataset


@option_groups
def embed_command(
    dataset: DatasetArgument,
    table: TableOptions,
    reading: ReadingOptions,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="hf:NAME, a folder in Hugging Face format, hf-config:FOLDER, the folder of a trained run, or pixels.",
            show_default="pixels for small images",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Feature file: .parquet.")] = Path("features.parquet"),
    batch_size: Annotated[int, typer.Option(help="Rows per batch.", min=1)] = 64,
    device: DeviceOption = "auto",
    with_split: Annotated[
        bool, typer.Option("--with-split", help="Add the in and out splits of trial 0 of the protocol.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Load encoder and data, print what would be done, and stop.")
    ] = False,
) -> None:
    """Save the features of a data set from a fixed encoder to a file that probe and diagnose read."""
    check_dataset(dataset, table)
    from momentalign._outputs import check_output
    from momentalign.data import load_dataset, table_spec
    from momentalign.encoders import Embedding, build_encoder, is_untrained

    check_output(out, (".parquet",), inputs=[Path(spec_path(dataset)).expanduser()])
    device = find_device(device)
    console = make_console()
    with print_warnings(console):
        root, workers, skip_bad_files = map(reading.get, ("root", "workers", "skip_bad_files"))
        data = load_dataset(table_spec(dataset, **table), root=root, skip_bad=skip_bad_files or False)
        if encoder is None:
            if data.training_recipe not in ("mnist", "digits"):
                raise ValueError(
                    f"{data.name} has no default encoder, which images of at most 64 pixels a side have: pixels. "
                    "Choose one, for instance '--encoder hf:openai/clip-vit-base-patch32', pixels, or a trained run."
                )
            encoder = "pixels"
        if is_untrained(encoder):
            raise ValueError(
                f"'--encoder' should have trained weights, but those of {encoder} are random. Train it with "
                "'momentalign train' and name the run's folder, or use pixels."
            )
        model = build_encoder(encoder, data, root=root)
        if workers is None:
            workers = 0 if device == "cpu" else min(8, available_cores())
        embedding = Embedding(
            data,
            model,
            out,
            batch_size=batch_size,
            device=device,
            workers=workers,
            splits=True if with_split else None,
        )
    print_lines(console, model.notes)
    width = model.num_features
    console.print(f"{data.name}: {embedding.rows} rows of {len(data.names)} domains, {width} features from {encoder}.")
    following = f"Next: momentalign {'probe' if 'train' in data.split_names else 'diagnose'} {shlex.quote(str(out))}"
    if embedding.done == embedding.rows and out.exists():
        if not dry_run:
            embedding.run()
        console.print(f"All features are in {out} already. {following}")
        return
    resumed = f" Resuming after {embedding.done} rows." if embedding.done else ""
    size = 4 * embedding.rows * width / 2**20
    console.print(f"About {size:.0f} MiB in {out}, computed on {device}.{resumed}")
    if dry_run:
        return
    done = embedding.done

    def interrupted() -> str:
        return f"Interrupted after {done} of {embedding.rows} rows. Run the same command again to resume."

    with exit_on_interrupt(console, interrupted), progress_bar(console, keep=True) as bar:
        task = bar.add_task("Embedding", total=embedding.rows, completed=done)

        def progress(finished: int, total: int) -> None:
            nonlocal done
            done = finished
            bar.update(task, completed=finished)

        embedding.run(progress)
    console.print(f"Saved the features to {out}. {following}")
