"""Run recipes: plans and results of sweeps; features, protocol and figures of probes."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from momentalign._datasets import EMBEDDED
from momentalign._table_spec import resolve_spec
from momentalign._types import ReportProgress, ignore_progress
from momentalign.published import AVERAGE, ERROR_NOTES, WORST_GROUP, published_as, published_probing
from momentalign.reproduce._recipes import ProbingRecipe, SweepRecipe

if TYPE_CHECKING:
    from momentalign.data import DomainDataset, Split
    from momentalign.probing import ProtocolResult
    from momentalign.selection import Sweep
    from momentalign.sweep import Plan


def plan_of(recipe: SweepRecipe, *, root: str | Path | None = None, encoder: str | None = None) -> "Plan":
    """List a recipe's runs; the data sets must be in the data folder. `encoder` replaces the paper's for images."""
    from momentalign.sweep import Plan, make_plan

    plans = [
        make_plan(
            [name],
            recipe.algorithms,
            rules=recipe.rules,
            trials=recipe.trials,
            hparams=recipe.hparams,
            root=root,
            steps=recipe.steps,
            encoder=recipe.encoder(name, encoder),
            preset=recipe.preset,
        )
        for name in recipe.datasets
    ]
    runs = tuple(chain.from_iterable(plan.runs for plan in plans))
    domains = {name: domains for plan in plans for name, domains in plan.domains.items()}
    return Plan(runs, recipe.rules, domains)


def results_of(plan: "Plan", out: Path) -> "Sweep":
    """Read the results so far of a plan's runs in the folder `out`; runs of other recipes there are ignored."""
    from momentalign.selection import Sweep, read_runs

    names = {config.hash() for config in plan.runs}
    sweep = read_runs([folder for folder in (out / name for name in sorted(names)) if folder.is_dir()])
    return Sweep(sweep.runs, sweep.records, [problem.replace(f"{out}/", "") for problem in sweep.problems])


def sweep_commands(recipe: SweepRecipe, out: Path, encoder: str | None, root: Path | None = None) -> list[str]:
    """Equivalent `momentalign sweep` commands, for example for a Ray cluster."""
    groups: dict[str | None, list[str]] = {}
    for name in recipe.datasets:
        groups.setdefault(recipe.encoder(name, encoder), []).append(name)
    common: list[object] = ["--algorithms", ",".join(recipe.algorithms), "--trials", recipe.trials]
    common += ["--hparams", recipe.hparams, "--preset", recipe.preset, "--no-weights"]
    common += [] if recipe.steps is None else ["--steps", recipe.steps]
    commands = []
    for spec, names in groups.items():
        own: list[object] = [] if root is None or set(names) <= set(EMBEDDED) else ["--root", root]
        own += ["--encoder", spec] if spec else []
        commands.append(shlex.join(map(str, ["momentalign", "sweep", *names, *common, *own, "--out", out])))
    return commands


def features_path(recipe: ProbingRecipe, dataset: str, out: Path, seed: int = 0) -> Path:
    """Path of the features of a data set by the encoder of a seed."""
    return out / "features" / f"{_stem(recipe, dataset, seed)}.parquet"


def check_features(path: Path, dataset: str, encoder: str | None = None) -> None:
    """Raise a ValueError for a missing file, or features of another data set or encoder.

    Files that `momentalign embed` did not write name neither: they pass as any data set, but as no given encoder.
    """
    from momentalign.probing import feature_source

    if not path.exists():
        raise ValueError(f"'--features': {path} does not exist.")
    source = feature_source(path)
    if source.get("dataset", dataset) != dataset:
        raise ValueError(f"{path} should hold features of {dataset}, but holds features of {source['dataset']}.")
    if encoder is not None and _resolved(source.get("encoder", "something else")) != _resolved(encoder):
        raise ValueError(
            f"{path} should hold features by {encoder}, but they are by {source.get('encoder', 'something else')}. "
            "Remove it, use another --out, or pass it with --features."
        )


def make_features(
    recipe: ProbingRecipe,
    dataset: str,
    out: Path,
    *,
    seed: int = 0,
    root: str | Path | None = None,
    encoder: str | None = None,
    device: str = "cpu",
    skip_bad_files: bool = False,
    progress: ReportProgress | None = None,
) -> Path:
    """Compute the features of a data set and return their file; an existing file is checked and reused.

    For MultiNLI the encoder is fine-tuned first, as in the paper: AdamW at 2e-5, batches of 32, three epochs; with the
    preset "released" for each `seed`, and the weights with the best worst group of the validation rows are kept.
    `encoder` replaces the paper's; `skip_bad_files` leaves out images that cannot be decoded.
    """
    from momentalign._machine import available_cores
    from momentalign.data import load_dataset
    from momentalign.encoders import Embedding, build_encoder

    target = features_path(recipe, dataset, out, seed)
    report = progress or ignore_progress
    spec = encoder or recipe.encoder(dataset)
    if target.exists() and dataset != "multinli":
        check_features(target, dataset, spec)
        return target
    data = load_dataset(dataset, root=root, skip_bad=skip_bad_files)
    if data.training_recipe == "text":
        # Also if the features exist: the run folder records which encoder it started from.
        spec = str(_fine_tuned(recipe, dataset, spec, out, seed, root, device, report))
        if target.exists():
            check_features(target, dataset, spec)
            return target
    target.parent.mkdir(parents=True, exist_ok=True)
    model = build_encoder(spec, data, root=root)
    rows = data if recipe.rows is None else _first_rows(data, recipe.rows)
    workers = 0 if device == "cpu" else min(8, available_cores())
    work = Embedding(rows, model, target, device=device, workers=workers)
    return work.run(lambda done, total: report("features", done / max(1, total)))


def probe_table(
    recipe: ProbingRecipe,
    dataset: str,
    features: Path | Sequence[Path],
    *,
    solver: str | None = None,
    progress: ReportProgress | None = None,
) -> "ProtocolResult":
    """Run the protocol on the features of one data set, or of each seed, next to the paper's numbers.

    The data set selects the grid of annealing steps, the class of ISR, and the published numbers. Solver "sgd" is the
    paper's optimiser; None takes the recipe's.
    """
    from momentalign.probing import find_method, run_protocol

    solver = solver or recipe.solver
    numbers = published_probing(dataset)
    published = {
        method: (beside[AVERAGE].mean, beside[WORST_GROUP].mean)
        for method in recipe.methods
        if (beside := numbers.get(published_as(method))) is not None
    }
    methods = [name for name in recipe.methods if solver in find_method(name).solvers]
    result = run_protocol(
        features,
        methods,
        solver=solver,
        seeds=recipe.seeds,
        recipe=dataset if recipe.preset == "published" else f"{dataset}-released",
        published=published,
        progress=progress,
    )
    notes = [ERROR_NOTES[dataset]] if dataset in ERROR_NOTES and recipe.encoders(dataset) == 1 else []
    return replace(result, name=_preset_name(recipe, dataset), notes=(*result.notes, *notes))


def probe_curves(
    recipe: ProbingRecipe, features: Path, out: Path, *, progress: ReportProgress | None = None
) -> "Sweep":
    """Run the paper's figure into folders in `out`: its best weights and optimiser, recorded over steps, per seed."""
    from momentalign.probing import ProbeData, make_probe_config, run_probe
    from momentalign.selection import read_runs

    report = progress or ignore_progress
    (dataset,) = recipe.datasets
    spec, data = resolve_spec(str(features)), ProbeData.from_file(features)
    configs = [
        make_probe_config(spec, method, trial=seed, solver="sgd", recipe=dataset, data=data)
        for method in recipe.methods
        for seed in range(recipe.seeds)
    ]
    for number, config in enumerate(configs):

        def report_step(done: int, steps: int, number: int = number) -> None:
            report("seeds", (number + done / steps) / len(configs))

        run_probe(config, out / config.hash(), progress=report_step)
    return read_runs([out / config.hash() for config in configs])


def _fine_tuned(
    recipe: ProbingRecipe,
    dataset: str,
    encoder: str,
    out: Path,
    seed: int,
    root: str | Path | None,
    device: str,
    progress: ReportProgress,
) -> Path:
    """Folder of a run that fine-tuned a text encoder on the data set, pooled over its domains."""
    from momentalign.training import make_config, run

    folder = out / f"{_stem(recipe, dataset, seed)}-encoder"
    keep = "worst-group" if recipe.preset == "released" else "last"
    config = make_config(dataset, "erm", encoder=encoder, root=root, trial=seed, keep=keep)
    if recipe.steps is not None and config.steps > recipe.steps:
        config = make_config(dataset, "erm", encoder=encoder, root=root, trial=seed, keep=keep, steps=recipe.steps)
    accelerator = "cuda" if device.startswith("cuda") else "cpu"
    run(
        config,
        folder,
        root=root,
        accelerator=accelerator,
        progress=lambda at: progress("fine-tuning the encoder", at.done / at.steps),
    )
    return folder


def _first_rows(data: "DomainDataset", number: int) -> "DomainDataset":
    """The first rows of each group, in each split."""
    import torch

    def first(rows: "Split") -> "Split":
        labels = rows.targets if rows.groups is None else rows.groups
        kept = [(labels == label).nonzero().squeeze(1)[:number] for label in labels.unique()]
        return rows.rows(torch.cat(kept).sort().values) if kept else rows

    return data.map_splits(first)


def _preset_name(recipe: ProbingRecipe, dataset: str) -> str:
    """Name of a data set's results, different for each preset."""
    return dataset if recipe.preset == "published" else f"{dataset}-{recipe.preset}"


def _stem(recipe: ProbingRecipe, dataset: str, seed: int) -> str:
    """Name of the files of a data set, different for each preset, scale and seed."""
    scale = "" if recipe.scale == "full" else f"-{recipe.scale}"
    return f"{_preset_name(recipe, dataset)}{scale}" + (f"-seed{seed}" if seed else "")


def _resolved(encoder: str) -> str:
    """An encoder's name; a path is made absolute."""
    path = Path(encoder).expanduser()
    return str(path.resolve()) if path.exists() else encoder
