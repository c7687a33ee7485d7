"""Defaults by data and encoder: published or safe weights, and the augmentation of images."""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from momentalign._format import join_first, join_names
from momentalign._table_spec import spec_path
from momentalign._validation import check_choice
from momentalign.algorithms import PRESETS, SAFE_WEIGHTS, AlgorithmSpec, find_training_recipe, has_safe_weights
from momentalign.encoders import AUGMENTATIONS
from momentalign.published import FINE_TUNED_ENCODERS
from momentalign.runs import RunConfig
from momentalign.training._data import DataFacts

_STAND_INS = {"rotated-digits": "rotated-mnist"}
"""Small sets that have the search space of the paper's set that they stand for (docs/results)."""

_LARGE_WEIGHT = 100.0
"""Weight of a relative term, which is at most 1, from which it can collapse the features."""

_CHARACTERS = 10
"""Least number of classes, all named by one character, that are taken for digits or letters."""

_DIGITS = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}


def resolve_preset(asked: str, spec: AlgorithmSpec, data: DataFacts, encoder: str) -> str:
    """The preset of a run: "auto" is "published" where the paper, or the data set's recipe, has weights for it.

    Algorithms without a search space of their own for a preset have the published one.
    """
    if check_choice("preset", asked, ("auto", *PRESETS)) == "auto":
        known = FINE_TUNED_ENCODERS.get(_STAND_INS.get(data.name, data.name)) == encoder
        asked = "published" if known or find_training_recipe(data.recipe).weights else "safe"
    return asked if spec.has_space(asked) else "published"


def resolve_augmentation(asked: str, data: DataFacts) -> str:
    """The augmentation of a run: "auto" is DomainBed's, without flips where classes are digits or letters."""
    check_choice("augment", asked, ("auto", *AUGMENTATIONS))
    if data.recipe != "image":  # nothing else is augmented: the default, whatever was asked for
        return "domainbed"
    if asked != "auto":
        return asked
    return "no-flip" if _are_characters(data.classes) else "domainbed"


def preset_notes(runs: Iterable[RunConfig], asked: str = "auto") -> list[str]:
    """One sentence on each preset other than the published one: for which algorithms, why, and what it does."""
    algorithms = defaultdict[tuple[str, str], dict[str, None]](dict)
    for run in runs:
        if run.preset == "published":
            continue
        what = "annealing as in the public code of CMA"
        if run.preset == "safe":
            what = f"{run.hparams['scaling']} scaling"
            if asked == "auto":
                encoder = f" with {run.encoder}" if run.encoder else ""
                what += f", because the paper has no weights for {Path(spec_path(run.dataset)).name}{encoder}"
            if has_safe_weights(run.preset, run.hparams):
                what += f"; its weights are {SAFE_WEIGHTS}"
        algorithms[run.preset, what][run.algorithm] = None
    return [f"Preset {preset} for {join_names(list(names))}: {what}." for (preset, what), names in algorithms.items()]


def augmentation_note(config: RunConfig, asked: str = "auto") -> str | None:
    """One line on images that are not flipped because of the names of their classes."""
    if asked != "auto" or config.augment != "no-flip":
        return None
    return "Images are not flipped: the classes are named like digits or letters. --augment domainbed flips them."


def warn_large_weights(hparams: Mapping[str, Any]) -> None:
    """Warn of weights of published size with relative scaling."""
    if hparams.get("scaling") != "relative":
        return
    large = [
        f"{name} {value:g}" for name, value in hparams.items() if name.endswith("_weight") and value > _LARGE_WEIGHT
    ]
    if large:
        warnings.warn(
            f"With relative scaling a term lies between 0 and 1, and weights above {_LARGE_WEIGHT:g} can collapse the "
            f"features: {join_first(large)}. Use weights near 1, or --preset published for weights of that size.",
            stacklevel=3,
        )


def _are_characters(classes: Sequence[str]) -> bool:
    single = len(classes) >= _CHARACTERS and all(len(name) == 1 and name.isalnum() for name in classes)
    return single or {name.lower() for name in classes} == _DIGITS
