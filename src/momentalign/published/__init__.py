"""The paper's numbers, to show beside ours in tables, recipes and benchmarks.

The numbers are in the TOML files of this folder, named by our data sets, domains and algorithms. Accuracies are in
percent. Errors of the paper are kept as printed, with a note.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = [
    "AVERAGE",
    "BEST_PROBES",
    "ERROR_NOTES",
    "FINE_TUNED_ENCODERS",
    "VIT_SMALL",
    "WORST_GROUP",
    "PublishedNumber",
    "published_accuracy",
    "published_as",
    "published_averages",
    "published_costs",
    "published_probing",
]

AVERAGE = "average"
WORST_GROUP = "worst group"

VIT_SMALL = "hf:timm/vit_small_patch16_224.augreg_in21k"
FINE_TUNED_ENCODERS: Mapping[str, str] = {
    "colored-mnist": "mnist-cnn",
    "rotated-mnist": "mnist-cnn",
    "vlcs": VIT_SMALL,
    "pacs": VIT_SMALL,
    "terra-incognita": VIT_SMALL,
}
"""Encoders of the paper's fine-tuning by data set, as on the command line: what its weights were searched for."""

ERROR_NOTES: Mapping[str, str] = {
    "multinli": "MultiNLI's published ± is over five fine-tunings of its encoder; ours is over seeds of probes on one."
}
"""What the published ± is over where that is not what ours is over, by data set."""

_PUBLISHED_AS = {"cma-diagonal": "cma", "hgp-product": "hgp"}


@dataclass(frozen=True)
class PublishedNumber:
    """A printed number.

    Args:
        mean: As printed.
        error: The number after ±, or None.
        note: What is wrong with it, or empty.
    """

    mean: float
    error: float | None = None
    note: str = ""


PublishedTable = dict[str, dict[str, PublishedNumber]]
"""Numbers by algorithm and column."""


def published_as(algorithm: str) -> str:
    """Name under which an algorithm is published: CMA's numbers may have been made with either form of it.

    Example:
        >>> published_as("cma-diagonal"), published_as("fishr")
        ('cma', 'fishr')
    """
    return _PUBLISHED_AS.get(algorithm, algorithm)


@cache
def published_accuracy(rule: str, dataset: str) -> PublishedTable:
    """Fine-tuning accuracy of one data set, by algorithm and domain, with "average"; empty if not published.

    Args:
        rule: "oracle" or "training-domain"; the paper has no other.
        dataset: Our name of the data set.
    """
    content = _read("fine_tuning")
    table = _table(content["per-domain"].get(rule, {}).get(dataset))
    for kind in ("main", "baselines"):
        for algorithm, numbers in _table(content[kind].get(rule)).items():
            if dataset in numbers:
                table.setdefault(algorithm, {})[AVERAGE] = numbers[dataset]
    return table


@cache
def published_averages(rule: str, baselines: bool = False) -> PublishedTable:
    """Fine-tuning accuracy by algorithm and data set, with "average" over the data sets.

    Args:
        rule: "oracle" or "training-domain".
        baselines: The table of additional baselines (two data sets) instead of the main table (five).
    """
    return _table(_read("fine_tuning")["baselines" if baselines else "main"].get(rule))


@cache
def published_probing(dataset: str) -> PublishedTable:
    """Linear-probing accuracy by algorithm, "average" and "worst group"; empty if not published."""
    return _table(_read("probing")["accuracy"].get(dataset))


@cache
def published_costs() -> dict[str, dict[str, tuple[float | None, float]]]:
    """Seconds and gigabytes of a training step, by algorithm and data set; None where it was not run."""
    content = _read("costs")
    seconds, memory = _table(content["seconds"]), _table(content["gigabytes"])
    return {
        algorithm: {
            name: (seconds[algorithm][name].mean if name in seconds[algorithm] else None, number.mean)
            for name, number in numbers.items()
        }
        for algorithm, numbers in memory.items()
    }


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__name__) / f"{name}.toml").read_text(encoding="utf-8"))


def _table(rows: Mapping[str, Any] | None) -> PublishedTable:
    """Parse a table: the list `columns`, one list per algorithm ("-" is an empty cell), optional `notes`."""
    if rows is None:
        return {}
    table = {
        algorithm: {
            column: _number(str(cell)) for column, cell in zip(rows["columns"], cells, strict=True) if cell != "-"
        }
        for algorithm, cells in rows.items()
        if algorithm not in ("columns", "notes")
    }
    for algorithm, notes in rows.get("notes", {}).items():
        for column, note in notes.items():
            table[algorithm][column] = replace(table[algorithm][column], note=note)
    return table


def _number(cell: str) -> PublishedNumber:
    mean, _, error = cell.partition("±")
    return PublishedNumber(float(mean), float(error) if error else None)


BEST_PROBES: dict[str, dict[str, dict[str, float]]] = _read("probing")["best"]
"""Best hyper-parameters of linear probing by method, hyper-parameter and data set, in the paper's units."""
