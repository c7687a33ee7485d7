"""Which of the paper's data sets the features of probes are of: published numbers stand beside these only."""

from pathlib import PurePath

import pandas as pd

from momentalign.published import PublishedNumber, published_probing

Numbers = dict[str, dict[str, PublishedNumber]]


def published_for_probes(dataset: str, label: str, runs: pd.DataFrame) -> tuple[Numbers, list[str]]:
    """The paper's numbers for probes, and how it is known that they are of the same data set.

    A file of features says what it is of if `momentalign embed` wrote it. If it does not, the recipe that the probes
    followed counts. What a file is called does not.

    Args:
        dataset: Name or path that the runs were given.
        label: What the table calls it.
        runs: All runs on it, as in `Sweep.runs`.

    Returns:
        By algorithm and column, empty if nothing was published or it is not known; and notes for the table.
    """
    if found := published_probing(dataset):
        return found, []
    said = {features["dataset"]: features.get("encoder", "") for features in runs["features"] if "dataset" in features}
    if len(said) == 1:
        ((name, encoder),) = said.items()
        found = published_probing(name)
        how = f"The file says that its features are of {name}" + (f", by {_short(encoder)}." if encoder else ".")
        return found, [how] if found else []
    if said:
        return {}, []
    recipes = {str(hparams.get("recipe")) for hparams in runs["hparams"]}
    if len(recipes) == 1:
        (name,) = recipes
        if found := published_probing(name):
            return found, [f"Taken for {name} because of --recipe {name}; the file does not say what it is of."]
    (name, *_) = PurePath(label).parts[-1:] or ("",)
    if published_probing(name):
        hint = f"No published numbers: {label} is of {name} by its name only. --recipe {name} says that it is."
        return {}, [hint]
    return {}, []


def _short(encoder: str) -> str:
    """An encoder's name; of a folder the last part, the folders above it are of one machine only."""
    kind, colon, rest = encoder.partition(":")
    path = PurePath(rest if colon and kind in ("hf", "hf-config") else encoder)
    return path.name if path.is_absolute() else encoder
