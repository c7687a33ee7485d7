"""Recipes that are linear probes: features once, then the paper's protocol on them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from momentalign.probing import ProtocolResult, run_protocol
from momentalign.published import AVERAGE, WORST_GROUP, published_probing
from momentalign.reproduce._recipes import ProbeRecipe

if TYPE_CHECKING:
    from momentalign.selection import Sweep

Tell = Callable[[str, float], None]
"""Is told what is under way and the share of it that is done, 0 to 1."""


def features_path(dataset: str, out: Path) -> Path:
    """Where a recipe keeps the features of a data set."""
    return out / "features" / f"{dataset}.parquet"


def make_features(
    recipe: ProbeRecipe,
    dataset: str,
    out: Path,
    *,
    root: str | Path | None = None,
    encoder: str | None = None,
    device: str = "cpu",
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
        tell: Is told how far it is.

    Returns:
        The file.
    """
    from momentalign.data import load_dataset
    from momentalign.encoders import build_encoder, embed

    target = features_path(dataset, out)
    if target.exists():
        return target
    say = tell or (lambda what, share: None)
    spec = encoder or recipe.encoder(dataset)
    data = load_dataset(dataset, root=root)
    if data.training_recipe == "text":
        spec = str(_fine_tuned(dataset, spec, out, root, device, say))
    target.parent.mkdir(parents=True, exist_ok=True)
    model = build_encoder(spec, data)
    return embed(data, model, target, device=device, progress=lambda done, all_: say("features", done / max(1, all_)))


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
    return run_protocol(
        features, methods, solver=solver, seeds=recipe.seeds, recipe=dataset, published=published, progress=tell
    )


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


def _fine_tuned(dataset: str, encoder: str, out: Path, root: str | Path | None, device: str, say: Tell) -> Path:
    """The folder of a run that fine-tuned a text encoder on the data set, pooled over its domains."""
    from momentalign.training import make_config, run

    folder = out / f"{dataset}-encoder"
    config = make_config(dataset, "erm", encoder=encoder, root=root)
    accelerator = "cuda" if device.startswith("cuda") else "cpu"
    run(
        config,
        folder,
        root=root,
        accelerator=accelerator,
        progress=lambda at: say("fine-tuning the encoder", at.done / at.steps),
    )
    return folder
