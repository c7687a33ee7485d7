"""Probing recipes: compute features once, then run the paper's protocol on them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from momentalign._types import ReportProgress
from momentalign.published import AVERAGE, WORST_GROUP, published_probing
from momentalign.reproduce._recipes import ProbingRecipe

if TYPE_CHECKING:
    from momentalign.data import DomainDataset, Split
    from momentalign.probing import ProtocolResult
    from momentalign.selection import Sweep


def features_path(recipe: ProbingRecipe, dataset: str, out: Path) -> Path:
    """Path of a recipe's features of a data set."""
    return out / "features" / f"{_scaled(recipe, dataset)}.parquet"


def check_features(path: Path, dataset: str, encoder: str | None = None) -> None:
    """Refuse a missing feature file, or features of another data set or encoder.

    Args:
        path: A file of features.
        dataset: Expected data set; not checked for files that `momentalign embed` did not write.
        encoder: Expected encoder; None accepts any, and files that do not name theirs.

    Raises:
        ValueError: The file does not exist or holds other features.
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
    root: str | Path | None = None,
    encoder: str | None = None,
    device: str = "cpu",
    skip_bad_files: bool = False,
    progress: ReportProgress | None = None,
) -> Path:
    """Compute the features of a data set and return their file; an existing file is checked and reused.

    For MultiNLI the encoder is fine-tuned first, as in the paper: AdamW at 2e-5, batches of 32, three epochs.

    Args:
        recipe: The recipe, which has the paper's encoder.
        dataset: Name of the data set.
        out: Folder of the recipes' results.
        root: Data folder.
        encoder: Replaces the paper's.
        device: "cpu" or "cuda".
        skip_bad_files: Leave out images that cannot be decoded.
        progress: Called with the current part and the fraction done.
    """
    from momentalign._machine import available_cores
    from momentalign.data import load_dataset
    from momentalign.encoders import Embedding, build_encoder

    target = features_path(recipe, dataset, out)
    report = progress or _ignore
    spec = encoder or recipe.encoder(dataset)
    if target.exists() and dataset != "multinli":
        check_features(target, dataset, spec)
        return target
    data = load_dataset(dataset, root=root, skip_bad=skip_bad_files)
    if data.training_recipe == "text":
        # Also if the features exist: the run folder records which encoder it started from.
        spec = str(_fine_tuned(recipe, dataset, spec, out, root, device, report))
        if target.exists():
            check_features(target, dataset, spec)
            return target
    target.parent.mkdir(parents=True, exist_ok=True)
    model = build_encoder(spec, data)
    rows = data if recipe.rows is None else _first_rows(data, recipe.rows)
    workers = 0 if device == "cpu" else min(8, available_cores())
    work = Embedding(rows, model, target, device=device, workers=workers, fewer_rows=skip_bad_files)
    return work.run(lambda done, total: report("features", done / max(1, total)))


def probe_table(
    recipe: ProbingRecipe,
    dataset: str,
    features: Path,
    *,
    solver: str = "converged",
    progress: ReportProgress | None = None,
) -> "ProtocolResult":
    """Run the protocol on one data set, with the paper's numbers beside.

    Args:
        recipe: Methods and seeds.
        dataset: Selects the grid of annealing steps, the class of ISR, and the published numbers.
        features: A file written by :func:`make_features`, or one like it.
        solver: "converged", or "sgd" for the paper's optimiser.
        progress: Called with the current part and the fraction done.
    """
    from momentalign.probing import run_protocol

    published = {
        method: (numbers[AVERAGE].mean, numbers[WORST_GROUP].mean)
        for method, numbers in published_probing(dataset).items()
    }
    methods = tuple(dict.fromkeys(("erm", "erm-balanced", *recipe.methods)))
    result = run_protocol(
        features, methods, solver=solver, seeds=recipe.seeds, recipe=dataset, published=published, progress=progress
    )
    return replace(result, name=dataset)


def probe_curves(
    recipe: ProbingRecipe, features: Path, out: Path, *, progress: ReportProgress | None = None
) -> "Sweep":
    """Runs of the paper's figure: its best weights and optimiser, one run per seed, recorded over steps.

    Args:
        recipe: A figure's recipe.
        features: A file of features.
        out: Parent of the runs' folders.
        progress: Called with the current part and the fraction done.
    """
    from momentalign.probing import make_probe_config, run_probe
    from momentalign.selection import read_runs

    report = progress or _ignore
    (dataset,) = recipe.datasets
    configs = [
        make_probe_config(features, method, trial=seed, solver="sgd", recipe=dataset)
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
    root: str | Path | None,
    device: str,
    progress: ReportProgress,
) -> Path:
    """Folder of a run that fine-tuned a text encoder on the data set, pooled over its domains."""
    from momentalign.training import make_config, run

    folder = out / f"{_scaled(recipe, dataset)}-encoder"
    config = make_config(dataset, "erm", encoder=encoder, root=root)
    if recipe.steps is not None and config.steps > recipe.steps:
        config = make_config(dataset, "erm", encoder=encoder, root=root, steps=recipe.steps)
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

    return data.with_domains(
        {domain: {split: first(rows) for split, rows in splits.items()} for domain, splits in data.domains.items()}
    )


def _scaled(recipe: ProbingRecipe, dataset: str) -> str:
    """Name of a data set's results, different for each scale."""
    return dataset if recipe.scale == "full" else f"{dataset}-{recipe.scale}"


def _resolved(encoder: str) -> str:
    """An encoder's name; a path is made absolute."""
    path = Path(encoder).expanduser()
    return str(path.resolve()) if path.exists() else encoder


def _ignore(part: str, fraction: float) -> None:
    """Progress that is not reported."""
