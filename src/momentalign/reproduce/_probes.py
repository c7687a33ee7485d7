"""Recipes that are linear probes: features once, then the paper's protocol on them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from momentalign._machine import available_cores
from momentalign.probing import ProtocolResult, feature_source, run_protocol
from momentalign.published import AVERAGE, WORST_GROUP, published_probing
from momentalign.reproduce._kinds import ProbeRecipe

if TYPE_CHECKING:
    from momentalign.data import DomainDataset, Split
    from momentalign.selection import Sweep

Tell = Callable[[str, float], None]
"""Is told what is under way and the share of it that is done, 0 to 1."""


def features_path(recipe: ProbeRecipe, dataset: str, out: Path) -> Path:
    """Where a recipe keeps the features of a data set."""
    return out / "features" / f"{_scaled(recipe, dataset)}.parquet"


def check_features(path: Path, dataset: str, encoder: str | None = None) -> None:
    """Refuse features that are there but of something else.

    Args:
        path: A file of features.
        dataset: What they should be of. A file that `momentalign embed` did not write does not say.
        encoder: What should have made them; None takes any, and files that do not say.

    Raises:
        ValueError: The file is not there, or says something else.
    """
    if not path.exists():
        raise ValueError(f"'--features': {path} does not exist.")
    said = feature_source(path)
    if said.get("dataset", dataset) != dataset:
        raise ValueError(f"{path} should hold features of {dataset}, but says that they are of {said['dataset']}.")
    if encoder is not None and _same(said.get("encoder", "something else")) != _same(encoder):
        raise ValueError(
            f"{path} should hold features by {encoder}, but they are by {said.get('encoder', 'something else')}. "
            "Remove it, use another --out, or name it with --features."
        )


def make_features(
    recipe: ProbeRecipe,
    dataset: str,
    out: Path,
    *,
    root: str | Path | None = None,
    encoder: str | None = None,
    device: str = "cpu",
    skip_bad_files: bool = False,
    tell: Tell | None = None,
) -> Path:
    """Compute the features of a data set, or find them done.

    For MultiNLI the encoder is fine-tuned first, as the paper does: AdamW at 2e-5, batches of 32, three epochs.

    Args:
        recipe: Names the encoder.
        dataset: Its name.
        out: Folder of the recipes' results.
        root: Data folder.
        encoder: In place of the paper's.
        device: "cpu" or "cuda".
        skip_bad_files: Leave out images that cannot be decoded.
        tell: Is told how far it is.

    Returns:
        The file.
    """
    from momentalign.data import load_dataset
    from momentalign.encoders import Embedding, build_encoder

    target = features_path(recipe, dataset, out)
    say = tell or (lambda what, share: None)
    spec = encoder or recipe.encoder(dataset)
    if target.exists() and dataset != "multinli":
        check_features(target, dataset, spec)
        return target
    data = load_dataset(dataset, root=root, skip_bad=skip_bad_files)
    if data.training_recipe == "text":
        # Also when the features are there: the run knows whether it began from the same encoder.
        spec = str(_fine_tuned(recipe, dataset, spec, out, root, device, say))
        if target.exists():
            check_features(target, dataset, spec)
            return target
    target.parent.mkdir(parents=True, exist_ok=True)
    model = build_encoder(spec, data)
    rows = data if recipe.rows is None else _some_rows(data, recipe.rows)
    workers = 0 if device == "cpu" else min(8, available_cores())
    work = Embedding(rows, model, target, device=device, workers=workers, fewer_rows=skip_bad_files)
    return work.run(lambda done, all_: say("features", done / max(1, all_)))


def probe_table(
    recipe: ProbeRecipe, dataset: str, features: Path, *, solver: str = "converged", tell: Tell | None = None
) -> ProtocolResult:
    """The protocol on one data set, the paper's numbers beside.

    Args:
        recipe: Methods and seeds.
        dataset: Names the grid of annealing steps, the class of ISR, and the published numbers.
        features: A file of :func:`make_features`, or one like it.
        solver: "converged", or "sgd" for the paper's optimiser.
        tell: Is told how far it is.

    Returns:
        The table.
    """
    published = {
        method: (numbers[AVERAGE].mean, numbers[WORST_GROUP].mean)
        for method, numbers in published_probing(dataset).items()
    }
    methods = tuple(dict.fromkeys(("erm", "erm-balanced", *recipe.methods)))
    result = run_protocol(
        features, methods, solver=solver, seeds=recipe.seeds, recipe=dataset, published=published, progress=tell
    )
    return replace(result, name=dataset)


def probe_curves(recipe: ProbeRecipe, features: Path, out: Path, *, tell: Tell | None = None) -> "Sweep":
    """Runs of the paper's figure: its best weights, its optimiser, a run for each seed, recorded over steps.

    Args:
        recipe: Of a figure.
        features: A file of features.
        out: Parent of the runs' folders.
        tell: Is told how far it is.

    Returns:
        The runs.
    """
    from momentalign.probing import make_probe_config, run_probe
    from momentalign.selection import read_runs

    say = tell or (lambda what, share: None)
    (dataset,) = recipe.datasets
    configs = [
        make_probe_config(features, method, trial=seed, solver="sgd", recipe=dataset)
        for method in recipe.methods
        for seed in range(recipe.seeds)
    ]
    for number, config in enumerate(configs):

        def under_way(done: int, steps: int, number: int = number) -> None:
            say("seeds", (number + done / steps) / len(configs))

        run_probe(config, out / config.hash(), progress=under_way)
    return read_runs([out / config.hash() for config in configs])


def _fine_tuned(
    recipe: ProbeRecipe, dataset: str, encoder: str, out: Path, root: str | Path | None, device: str, say: Tell
) -> Path:
    """The folder of a run that fine-tuned a text encoder on the data set, pooled over its domains."""
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
        progress=lambda at: say("fine-tuning the encoder", at.done / at.steps),
    )
    return folder


def _some_rows(data: "DomainDataset", number: int) -> "DomainDataset":
    """The first rows of each group, in each split."""
    import torch

    def first(rows: "Split") -> "Split":
        labels = rows.targets if rows.groups is None else rows.groups
        kept = [(labels == label).nonzero().squeeze(1)[:number] for label in labels.unique()]
        return rows.rows(torch.cat(kept).sort().values) if kept else rows

    return data.with_domains(
        {domain: {split: first(rows) for split, rows in splits.items()} for domain, splits in data.domains.items()}
    )


def _scaled(recipe: ProbeRecipe, dataset: str) -> str:
    """What is made for a data set at another scale has another name."""
    return dataset if recipe.scale == "full" else f"{dataset}-{recipe.scale}"


def _same(encoder: str) -> str:
    """A spec that means the same in every folder, where it is a path."""
    path = Path(encoder).expanduser()
    return str(path.resolve()) if path.exists() else encoder
