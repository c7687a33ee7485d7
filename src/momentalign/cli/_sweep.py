"""`momentalign sweep`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from momentalign._format import join_names, pluralize
from momentalign.cli._options import (
    MACHINE,
    TRAINING,
    AcceleratorOption,
    ConfigOptions,
    JobsOption,
    PerGpuOption,
    ReachOption,
    RetryFailedOption,
    RootOption,
    SettingsOption,
    SkipBadFilesOption,
    SolverOption,
    TrainAccuracyOption,
    option_groups,
    parse_settings,
    split_names,
)
from momentalign.cli._output import make_console, print_lines, print_warnings
from momentalign.cli._sweep_output import make_engine, print_notes, print_table, run_plan
from momentalign.cli._table_options import TableOptions, check_dataset

if TYPE_CHECKING:
    from momentalign.sweep import Plan, Tally


@option_groups
def sweep(
    datasets: Annotated[list[str], typer.Argument(help="Data sets: names, folders domain/class/image, or tables.")],
    algorithms: Annotated[
        str,
        typer.Option(
            help="Names (erm,fishr,cma; a wrong one lists all), or package.module:Class, separated by commas."
        ),
    ],
    table: TableOptions,
    settings: ConfigOptions,
    trials: Annotated[
        int | None, typer.Option(help="Seeds of data, split, weights and batches.", show_default="3; 5 for probes")
    ] = None,
    hparams: Annotated[
        int | None,
        typer.Option(help="Sets of hyper-parameters, the defaults first.", show_default="5; the whole grid for probes"),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            help="Selection rules to run for, separated by commas: training-domain, extrapolated, "
            "leave-one-domain-out, oracle; with groups worst-group, worst-class, train-groups.",
            show_default="worst-group for data with groups, else training-domain,extrapolated,oracle",
        ),
    ] = None,
    reach: ReachOption = None,
    test_domains: Annotated[
        list[str] | None,
        typer.Option(help="Test domains, separated by commas; write --test-domains=-90%.", show_default="all"),
    ] = None,
    train_accuracy: TrainAccuracyOption = True,
    setting: Annotated[str, typer.Option(help="finetune, or probe for linear heads on fixed features.")] = "finetune",
    solver: SolverOption = "converged",
    recipe: Annotated[str, typer.Option(help="For probes: waterbirds, celeba, multinli or table.")] = "table",
    set_: SettingsOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Parent of the runs' folders.")] = Path("runs/sweep"),
    root: RootOption = None,
    engine: Annotated[
        str, typer.Option(help="local: processes of this machine; ray: a Ray cluster.", rich_help_panel=MACHINE)
    ] = "local",
    jobs: JobsOption = None,
    device: AcceleratorOption = "auto",
    per_gpu: PerGpuOption = 1,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of a Ray cluster: host:port, ray://host:port or auto.",
            show_default="a new local one",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    cpus: Annotated[int, typer.Option(help="Cores per run on a Ray cluster.", rich_help_panel=MACHINE)] = 1,
    weights: Annotated[
        bool,
        typer.Option("--weights/--no-weights", help="Keep the weights of finished runs.", rich_help_panel=TRAINING),
    ] = True,
    skip_bad_files: SkipBadFilesOption = False,
    retry_failed: RetryFailedOption = False,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines", help="On tables, run LogisticRegression and LogisticRegressionCV too."
        ),
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and the number of runs, and stop.")
    ] = False,
) -> None:
    """Compare algorithms: train every run that the selection rules need, resuming if interrupted, and print a table."""
    for dataset in datasets:
        check_dataset(dataset, table)
    from momentalign._outputs import check_folder
    from momentalign._validation import check_choice, check_nonnegative
    from momentalign.data import table_spec
    from momentalign.sweep import make_plan, make_probe_plan
    from momentalign.training import augmentation_note, preset_notes

    check_folder(out)
    check_choice("--setting", setting, ("finetune", "probe"))
    if reach is not None:
        check_nonnegative("--reach", reach)
    check_choice("--engine", engine, ("local", "ray"))
    if not train_accuracy and "train-groups" in split_names(select or ""):
        raise ValueError("'--select train-groups' needs the accuracy on training rows. Omit --no-train-accuracy.")
    console = make_console()
    with print_warnings(console):
        datasets = [table_spec(dataset, **table) for dataset in datasets]
        overrides = parse_settings(set_ or [])
        if setting == "probe":
            device = "cpu"  # whatever there is: probes do not use a GPU
            plan = make_probe_plan(
                datasets,
                split_names(algorithms),
                rules=("worst-group",) if select is None else split_names(select),
                trials=5 if trials is None else trials,
                hparams=hparams,
                solver=solver,
                recipe=recipe,
                overrides=overrides,
                **settings,
            )
        else:
            plan = make_plan(
                datasets,
                split_names(algorithms),
                rules=None if select is None else split_names(select),
                trials=3 if trials is None else trials,
                hparams=5 if hparams is None else hparams,
                test_domains=split_names(*test_domains) if test_domains else None,
                root=root,
                baselines=baselines,
                overrides=overrides,
                **settings,
            )
        if reach is not None and "extrapolated" not in plan.rules:
            raise ValueError(f"'--reach' has no effect with --select {','.join(plan.rules)}. Omit it.")
        console.print(plan.describe())
        added = dict.fromkeys(run.algorithm for run in plan.all_runs if run.algorithm not in split_names(algorithms))
        if added:
            console.print(f"Added for comparison: {join_names(list(added))}; --no-baselines omits them.")
        if setting == "finetune":
            print_lines(console, preset_notes(plan.all_runs, settings.get("preset", "auto")))
            augment = settings.get("augment", "auto")
            print_lines(console, dict.fromkeys(augmentation_note(run, augment) for run in plan.all_runs))
        executor = make_engine(engine, out, jobs=jobs, device=device, per_gpu=per_gpu, address=address, cpus=cpus)
        options: dict[str, Any] = {"root": root, "retry_failed": retry_failed, "skip_bad_files": skip_bad_files}
        options |= {"keep_weights": weights, "train_accuracy": train_accuracy}
        tally = run_plan(console, plan, executor, out, dry_run=dry_run, **options)
    if tally is not None:
        _print_results(console, plan, out, tally, reach=reach, retried=retry_failed)


def _print_results(
    console: Console, plan: "Plan", out: Path, tally: "Tally", *, reach: float | None, retried: bool
) -> None:
    from momentalign.runs import read_runs

    problems: list[str] = []
    if tally.finished or tally.before:
        results = read_runs(out)
        problems = results.problems
        first, *others = plan.rules
        print_table(console, results, first, reach=reach)
        if others:
            more = f" --reach {reach:g}" if reach is not None and others[0] == "extrapolated" else ""
            more += f" (or {', '.join(others[1:])})" if others[1:] else ""
            console.print(f"Other rules: momentalign table {shlex.quote(str(out))} --select {others[0]}{more}")
    print_notes(console, tally, problems)
    errors = dict.fromkeys(tally.failed.values())
    print_lines(console, (error for error in errors if not any(error in problem for problem in problems)))
    console.print(f"{pluralize(tally.finished, 'run')} done now, {tally.before} before, {len(tally.failed)} failed.")
    console.print(f"Saved the runs to {out}. Next: momentalign report {shlex.quote(str(out))} -o report.html")
    if tally.failed:
        if not retried:
            console.print("To retry failed runs, add --retry-failed to the same command.")
        raise typer.Exit(1)
