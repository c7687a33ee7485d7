"""`momentalign train`."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from momentalign._format import format_duration, join_names, pluralize
from momentalign.cli._settings import parse_settings
from momentalign.cli._training_output import Bar, Notes, Say, accuracy_table, said_of_annealing, said_of_divergence


def train(
    dataset: Annotated[str, typer.Argument(help="Name of a data set, a folder domain/class/image, or a table.")],
    algorithm: Annotated[str, typer.Option(help="Name, or package.module:Class of your own.")] = "erm",
    test_domain: Annotated[
        list[str] | None, typer.Option(help="A domain to hold out; can be given more than once.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps; 5001 if not given, three epochs for texts.")] = None,
    seed: Annotated[int, typer.Option(help="The trial: seed of data, split, weights, batches, augmentation.")] = 0,
    hparams_seed: Annotated[int, typer.Option(help="Which draw of hyper-parameters; 0 is the defaults.")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: a hyper-parameter; can be given more than once.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run's folder. [default: runs/HASH]")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="mnist-cnn, mlp, hf:NAME, a folder in Hugging Face format, or a run's folder.")
    ] = None,
    devices: Annotated[int, typer.Option(help="Processes, each with a device; they share every mini-batch.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    precision: Annotated[str, typer.Option(help="32 or bf16.")] = "32",
    record_every: Annotated[int | None, typer.Option(help="Steps between records.")] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Records between checkpoints. [default: as many as take ten seconds]")
    ] = None,
    holdout: Annotated[float, typer.Option(help="Share of each domain that is never trained on.")] = 0.2,
    root: Annotated[Path | None, typer.Option(help="Data folder. [default: $MOMENTALIGN_DATA]")] = None,
    skip_bad_files: Annotated[bool, typer.Option("--skip-bad-files", help="Leave out unreadable images.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes that read images.")] = None,
    compile_: Annotated[bool, typer.Option("--compile", help="Compile the network: for long or many runs.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure a few steps, say the cost, and stop.")] = False,
) -> None:
    """Train a network on some domains and try it on the others."""
    from momentalign._files import check_writable
    from momentalign._saved import read_model
    from momentalign._validation import check_count
    from momentalign.training import estimate, find_position, make_config, read_records, run

    console = Console(highlight=False, markup=False, soft_wrap=True)
    with Notes(console):
        config = make_config(
            dataset,
            algorithm,
            test_domains=test_domain or (),
            trial=check_count("--seed", seed, 0),
            hparams_seed=check_count("--hparams-seed", hparams_seed, 0),
            hparams=parse_settings(set_ or []),
            steps=steps,
            record_every=record_every,
            encoder=encoder,
            holdout=holdout,
            precision=precision,
            root=root,
        )
        out = Path("runs", config.hash()) if out is None else out
        held_out = f", without {join_names(config.test_domains)}" if config.test_domains else ""
        length = f"{pluralize(config.steps, 'step')}, a record every {config.record_every}"
        console.print(f"{algorithm} on {dataset}{held_out}: {length}.")
        console.print("  " + ", ".join(f"{name} {value}" for name, value in config.hparams.items()))
        where: dict[str, Any] = {"devices": devices, "accelerator": device, "root": root, "workers": workers}
        where |= {"skip_bad_files": skip_bad_files, "compile": "all" if compile_ else "none"}
        if dry_run:
            with console.status("Measuring a few steps …"):
                cost = estimate(config, **where, say=Say())
            console.print(
                f"About {format_duration(cost.seconds)}: {1000 * cost.step_seconds:.3g} ms a step, "
                f"{cost.record_seconds:.2g} s for each of {cost.records} records; {cost.memory_gib:.2g} GiB of memory. "
                "Nothing was written."
            )
            return
        check_writable(out.absolute())
        try:
            with Bar() as bar:
                records = run(config, out, **where, checkpoint_every=checkpoint_every, progress=bar, say=Say())
        except KeyboardInterrupt:
            step = find_position(out).step
            console.print(f"Interrupted. Run the same command again to go on from step {step} of {config.steps}.")
            raise typer.Exit(130) from None
        history = read_records(out)
        diverged = said_of_divergence(history, config.hparams)
        if diverged is not None:
            console.print(diverged)
        console.print(accuracy_table(records, config.test_domains))
        note = None if diverged else said_of_annealing(history, config.test_domains, config.hparams)
        if note is not None:
            console.print(note)
        if not (out / "checkpoint" / "model.safetensors").exists():
            console.print(f"Records lie in {out}, but no weights. Remove it and run the same again to have them.")
            return
        read_model(out)  # says what to do where they are damaged
        more = (["--root", str(root)] if root else []) + (["--skip-bad-files"] if skip_bad_files else [])
        following = shlex.join(["momentalign", "evaluate", str(out), dataset, *more])
        console.print(f"Records and weights lie in {out}. Next: {following}")
