"""`momentalign train`."""

import shlex
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from momentalign._format import join_names, pluralize
from momentalign.cli._options import (
    MACHINE,
    TRAINING,
    AcceleratorOption,
    ConfigOptions,
    DatasetArgument,
    ReadingOptions,
    SettingsOption,
    TrainAccuracyOption,
    option_groups,
    parse_settings,
)
from momentalign.cli._output import (
    TrainingBar,
    annealing_note,
    divergence_note,
    exit_on_interrupt,
    make_console,
    print_line,
    print_lines,
    print_warnings,
    score_table,
    splits_note,
)
from momentalign.cli._table_options import TableOptions, check_dataset


@option_groups
def train_command(
    dataset: DatasetArgument,
    table: TableOptions,
    settings: ConfigOptions,
    reading: ReadingOptions,
    algorithm: Annotated[
        str, typer.Option(help="Name (erm, fishr, cma; a wrong one lists all), or package.module:Class.")
    ] = "erm",
    test_domain: Annotated[
        list[str] | None, typer.Option(help="Domain to hold out for testing; repeatable.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Trial: seed of data, split, weights, batches and augmentation.")] = 0,
    hparams_seed: Annotated[int, typer.Option(help="Draw of hyper-parameters; 0 for the defaults.")] = 0,
    set_: SettingsOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the run.", show_default="runs/HASH")
    ] = None,
    devices: Annotated[
        int, typer.Option(help="Processes, one device each, that share every mini-batch.", rich_help_panel=MACHINE)
    ] = 1,
    device: AcceleratorOption = "auto",
    train_accuracy: TrainAccuracyOption = True,
    keep: Annotated[
        str,
        typer.Option(
            help="Record whose weights are saved: last, or the best by training-domain, extrapolated or worst-group.",
            rich_help_panel=TRAINING,
        ),
    ] = "last",
    reach: Annotated[
        float | None,
        typer.Option(
            help="For --keep extrapolated; 0 keeps the best worst domain.", show_default="2", rich_help_panel=TRAINING
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            help="Records between checkpoints.", show_default="about every ten seconds", rich_help_panel=TRAINING
        ),
    ] = None,
    logger: Annotated[
        list[str] | None,
        typer.Option(
            help="Also log to csv, tensorboard, mlflow or wandb; repeatable.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None,
    compile_: Annotated[
        bool, typer.Option("--compile", help="Compile the network, for long or many runs.", rich_help_panel=MACHINE)
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the settings, and stop.")] = False,
) -> None:
    """Train a network on some domains and evaluate it on the others."""
    check_dataset(dataset, table)
    from momentalign._model_file import MODEL, check_version, read_about
    from momentalign._outputs import check_writable
    from momentalign._validation import check_count
    from momentalign.data import table_spec
    from momentalign.runs import RunConfig, read_records, read_run, saved_records, weights_note
    from momentalign.training import augmentation_note, find_position, make_config, preset_notes, run

    console = make_console()
    with print_warnings(console):
        config = make_config(
            table_spec(dataset, **table),
            algorithm,
            test_domains=test_domain or (),
            trial=check_count("--seed", seed, 0),
            hparams_seed=check_count("--hparams-seed", hparams_seed, 0),
            hparams=parse_settings(set_ or []),
            keep=keep,
            reach=RunConfig.reach if reach is None else reach,
            root=reading.get("root"),
            **settings,
        )
        out = Path("runs", config.hash()) if out is None else out
        held_out = f", without {join_names(config.test_domains)}" if config.test_domains else ""
        length = f"{pluralize(config.steps, 'step')}, a record every {config.record_every}"
        network = f", encoder {settings['encoder']}" if "encoder" in settings else ""
        console.print(f"{algorithm} on {dataset}{held_out}: {length}{network}.")
        console.print("  " + ", ".join(f"{name} {value}" for name, value in config.hparams.items()))
        preset, augment = settings.get("preset", "auto"), settings.get("augment", "auto")
        print_lines(console, (*preset_notes([config], preset), augmentation_note(config, augment)))
        options: dict[str, Any] = {"devices": devices, "accelerator": device, **reading, "log": print_line}
        options |= {"loggers": tuple(logger or ()), "compile": "all" if compile_ else "none"}
        options |= {"checkpoint_every": checkpoint_every}
        options |= {"train_accuracy": train_accuracy}
        if dry_run:
            console.print("Nothing was run.")
            return
        check_writable(out.absolute())

        def interrupted() -> str:
            step = find_position(out).step
            return f"Interrupted. Run the same command again to resume from step {step} of {config.steps}."

        with exit_on_interrupt(console, interrupted), closing(TrainingBar()) as bar:
            records = run(config, out, **options, progress=bar)
        history, saved = read_records(out), read_run(out).get("weights")
        diverged = divergence_note(history, config.hparams)
        print_lines(console, [diverged])
        if saved is not None:
            records = saved_records(history, saved)
        console.print(score_table(records, config.test_domains))
        fallen = None if diverged else annealing_note(history, config.test_domains, config.hparams)
        print_lines(console, [splits_note(records, config.test_domains), fallen])
        if not (out / MODEL).exists():
            check_version(out)
            console.print(f"{out} has records but no weights. Remove it and run the same command again to save them.")
            return
        read_about(out / MODEL)  # raises with advice if it is damaged
        if saved is not None:
            print_lines(console, [weights_note(saved, config.steps)])
        more = ["--root", str(reading["root"])] if "root" in reading else []
        more += ["--skip-bad-files"] if reading.get("skip_bad_files") else []
        following = shlex.join(["momentalign", "evaluate", str(out), dataset, *more])
        console.print(f"Saved records and weights to {out}. Next: {following}")
