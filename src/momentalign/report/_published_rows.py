"""Rows of published numbers beside ours, and notes on their source."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

import pandas as pd

from momentalign.published import ERROR_NOTES, PublishedNumber, published_as, published_probing
from momentalign.report._table import FOOTNOTE_MARK, ResultCell, ResultRow

PUBLISHED_FINE_TUNING = "published: the paper's, best of 5 sets, 3 trials."
PUBLISHED_PROBING = (
    "published: the paper's, standard error over 5 seeds; its code differs from its text, so ours are not expected to "
    "match them (documentation, errata 9)."
)


def with_published(
    rows: Sequence[ResultRow],
    columns: Sequence[str],
    published: Mapping[str, Mapping[str, PublishedNumber]],
    source: str,
    decimals: int = 1,
) -> tuple[list[ResultRow], list[str]]:
    """Our rows, each followed by the published one if any; and notes: the source, and errors in the paper."""
    both: list[ResultRow] = []
    notes: list[str] = []
    for row in rows:
        both.append(row)
        numbers = [published.get(published_as(row.algorithm), {}).get(column) for column in columns]
        if any(number is not None for number in numbers):
            cells = [
                ResultCell(None, expected=False)
                if number is None
                else ResultCell(number.mean, number.error, mark=FOOTNOTE_MARK if number.note else "", decimals=decimals)
                for number in numbers
            ]
            both.append(ResultRow(row.algorithm, row.label, True, tuple(cells)))
            notes += [number.note for number in numbers if number is not None and number.note]
    footnotes = [f"{FOOTNOTE_MARK} {note}." for note in dict.fromkeys(notes)]
    return both, [source, *footnotes] if len(both) > len(rows) else []


def published_for_probes(
    dataset: str, label: str, runs: pd.DataFrame
) -> tuple[dict[str, dict[str, PublishedNumber]], list[str]]:
    """Published probing numbers for a file of features, and notes on how its data set was identified.

    `momentalign embed` stores it in the file. Otherwise the recipe of the probes decides, never the file name.
    """
    if published := published_probing(dataset):
        return published, _error_notes(dataset)
    sources = {
        features["dataset"]: features.get("encoder", "") for features in runs["features"] if "dataset" in features
    }
    if len(sources) == 1:
        ((name, encoder),) = sources.items()
        published = published_probing(name)
        by = f", by {_encoder_name(encoder)}" if encoder else ""
        notes = [f"According to its file the features are of {name}{by}.", *_error_notes(name)]
        return published, notes if published else []
    if sources:
        return {}, []
    recipes = {str(hparams.get("recipe")) for hparams in runs["hparams"]}
    if len(recipes) == 1:
        (name,) = recipes
        if published := published_probing(name):
            note = f"Assumed to be {name} because of --recipe {name}; the file names no data set."
            return published, [note, *_error_notes(name)]
    name = PurePath(label).name
    if published_probing(name):
        return {}, [f"No published numbers: only the file name suggests {name}. Use --recipe {name} to confirm it."]
    return {}, []


def _error_notes(dataset: str) -> list[str]:
    return [ERROR_NOTES[dataset]] if dataset in ERROR_NOTES else []


def _encoder_name(encoder: str) -> str:
    """An encoder's name; the last part of an absolute path."""
    kind, colon, rest = encoder.partition(":")
    path = PurePath(rest if colon and kind in ("hf", "hf-config") else encoder)
    return path.name if path.is_absolute() else encoder
