"""Make the configuration of a run: defaults, hyper-parameters, names checked against the data set."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from momentalign._format import join_names
from momentalign._table_spec import resolve_spec
from momentalign._validation import check_choice, check_count, check_holdout, check_names, check_nonnegative
from momentalign.algorithms import AVERAGES, draw_hyperparameters, find_algorithm, find_training_recipe
from momentalign.data import DomainDataset, dataset_names
from momentalign.encoders import default_encoder, is_small_network, name_encoder
from momentalign.runs import RunConfig
from momentalign.training._data import DataFacts, facts_of, load_facts
from momentalign.training._keep import KEEP_RULES
from momentalign.training._presets import resolve_augmentation, resolve_preset, warn_large_weights

TEXT_EPOCHS = 3
PRECISIONS = ("32", "bf16")


def make_config(
    dataset: str | DomainDataset,
    algorithm: str = "erm",
    *,
    test_domains: Sequence[str] = (),
    trial: int = 0,
    hparams_seed: int = 0,
    hparams: Mapping[str, Any] | None = None,
    steps: int | None = None,
    record_every: int | None = None,
    encoder: str | None = None,
    holdout: float = 0.2,
    precision: str = "32",
    pool: bool | None = None,
    average: str | None = None,
    preset: str = "auto",
    augment: str = "auto",
    keep: str = "last",
    reach: float = RunConfig.reach,
    root: str | Path | None = None,
    loaded: DomainDataset | None = None,
) -> RunConfig:
    """Make a configuration: defaults resolved, hyper-parameters drawn, names checked against the data set.

    Args:
        dataset: Name or path of a data set (of a table: see :func:`momentalign.data.table_spec`), or a data set of your
            own (give it to :func:`run` as well).
        algorithm: Name or import path of an algorithm.
        test_domains: Domains that are not trained on.
        trial: Seed of data, split, initialisation, batches and augmentation.
        hparams_seed: Which draw of hyper-parameters; 0 is the defaults.
        hparams: Values that override the draw.
        steps: Number of steps; 5001 if not given, 800 for coloured digits, three epochs for texts.
        record_every: Steps between records; 100 if not given, 40 for coloured digits, 300 for images, a third of the
            steps for texts.
        encoder: As people type it; None for the default of the data set. A folder in the data folder is stored by its
            path from there, which is the same on every machine.
        holdout: Share of each domain in its "out" split.
        precision: "32" or "bf16".
        pool: Draw batches from all training domains together. If not given, only plain ERM on texts does, which is
            how text encoders are usually fine-tuned.
        average: "none", or the average of the weights to record beside them: "ema", "sma" or "swad". If not given,
            "sma" for coloured digits and "none" for others.
        preset: "published" for the paper's search spaces; "safe" for relative scaling and small weights of alignment
            penalties, which does no harm to a pretrained network; "released" for the annealing of CMA's public code;
            "auto" for the published one where the paper has weights for the data set with its encoder, and the safe
            one otherwise.
        augment: Augmentation of images: "domainbed", "no-flip", "none", or "auto" for DomainBed's, without flips where
            the classes are named like digits or letters.
        keep: Which record's weights are saved, as in :class:`RunConfig`.
        reach: Of `keep="extrapolated"`.
        root: Data folder.
        loaded: The data set of that name or path, where it has been loaded already.

    Raises:
        ValueError: A name that does not exist, or a number out of range.
    """
    for name, seed in (("trial", trial), ("hparams_seed", hparams_seed)):
        if check_count(name, seed, 0) >= 2**63:
            raise ValueError(f"'{name}' should be below 2^63, but is {seed}.")
    if isinstance(dataset, str) and dataset not in dataset_names():
        dataset = resolve_spec(dataset)
    own = dataset if isinstance(dataset, DomainDataset) else loaded
    data = load_facts(str(dataset), root) if own is None else facts_of(own)
    if data.is_regression:
        raise ValueError(
            f"Training needs classes, but the targets of {data.name} are numbers. Use 'momentalign probe'."
        )
    if len(data.classes) < 2:
        raise ValueError(
            f"Training needs two classes at least, but {data.name} has {len(data.classes)}: {join_names(data.classes)}."
        )
    trained = default_encoder(data.name, data.recipe) if encoder is None else encoder  # raises where there is none
    is_chosen = isinstance(dataset, DomainDataset) and dataset.recipe_is_chosen
    if data.recipe in ("mnist", "image") and not is_chosen:
        # The learning rates of small networks would ruin a pretrained one, however small the images, and conversely.
        data = data._replace(recipe="mnist" if is_small_network(trained, root) else "image")
    named = [check_choice("test_domain", name, data.names) for name in check_names("test_domains", test_domains)]
    held_out = tuple(name for name in data.names if name in named)
    if len(held_out) == len(data.names):
        raise ValueError(
            f"All domains of {data.name} are test domains. Leave one to train on: {', '.join(data.names)}."
        )
    spec = find_algorithm(algorithm)
    if pool is None:
        pool = data.recipe == "text" and algorithm == "erm"
    if pool and algorithm != "erm":
        raise ValueError(f"'pool' makes one domain of all: it goes with 'erm', but not with '{algorithm}'.")
    recipe = find_training_recipe(data.recipe)
    if steps is None:
        steps = recipe.steps
    if steps is None:
        batch = (hparams or {}).get("batch_size", recipe.shared["batch_size"].default)
        steps = _steps_of_epochs(data, held_out, batch * (1 if pool else len(data.names) - len(held_out)))
    check_count("steps", steps, 1)
    if record_every is None:
        record_every = recipe.record_every or -(-steps // TEXT_EPOCHS)
    check_holdout(holdout)
    preset = resolve_preset(preset, spec, data, trained)
    drawn = draw_hyperparameters(spec.space(data.recipe, steps, preset), hparams_seed, hparams)
    warn_large_weights(drawn)
    check_count("batch_size", drawn["batch_size"], 1)
    return RunConfig(
        dataset=data.name if isinstance(dataset, DomainDataset) else dataset,
        algorithm=algorithm,
        test_domains=held_out,
        trial=trial,
        hparams_seed=hparams_seed,
        hparams=drawn,
        steps=steps,
        record_every=check_count("record_every", record_every, 1),
        encoder=None if encoder is None else name_encoder(encoder, root),
        holdout=holdout,
        precision=check_choice("precision", precision, PRECISIONS),
        pool=pool,
        average=check_choice("average", recipe.average if average is None else average, AVERAGES),
        preset=preset,
        augment=resolve_augmentation(augment, data),
        keep=check_choice("keep", keep, KEEP_RULES),
        reach=check_nonnegative("reach", reach),
    )


def _steps_of_epochs(data: DataFacts, held_out: Sequence[str], rows: int) -> int:
    total = sum(number for name, number in data.training_rows.items() if name not in held_out)
    return max(1, -(-TEXT_EPOCHS * total // rows))
