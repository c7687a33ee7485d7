"""Labels of algorithms, terms, data sets and domains, and their order."""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath, PureWindowsPath

import pandas as pd

from momentalign._table_spec import TABLE_SUFFIXES, spec_path
from momentalign.algorithms import PLAIN_MODELS, algorithm_names, find_algorithm
from momentalign.data import dataset_names
from momentalign.probing import METHODS

_ALGORITHMS = {name: find_algorithm(name) for name in algorithm_names()}
_LABELS = {name: method.label for name, method in METHODS.items()}
_LABELS |= PLAIN_MODELS | {name: spec.label for name, spec in _ALGORITHMS.items()}
_TERM_LABELS = {"cross_entropy": "cross-entropy of the batches"}
for _spec in reversed(_ALGORITHMS.values()):
    _TERM_LABELS |= _spec.term_labels
_AVERAGES = {"ema": "EMA", "sma": "SMA", "swad": "SWAD"}
_AVERAGES |= {"uniform-soup": "uniform soup", "greedy-soup": "greedy soup"}
# Abbreviations that are common in papers; other data sets show their domains' names in full.
_HEADS = {
    "vlcs": {"Caltech101": "C", "LabelMe": "L", "SUN09": "S", "VOC2007": "V"},
    "pacs": {"art_painting": "A", "cartoon": "C", "photo": "P", "sketch": "S"},
    "office-home": {"Art": "A", "Clipart": "C", "Product": "P", "Real World": "R"},
    "terra-incognita": {"location_100": "L100", "location_38": "L38", "location_43": "L43", "location_46": "L46"},
}


def algorithm_label(name: str) -> str:
    """Label of an algorithm; unknown names are returned unchanged.

    Example:
        >>> algorithm_label("cma+sma")
        'CMA + SMA'
    """
    base, plus, average = name.rpartition("+")
    if plus and average in _AVERAGES:
        return f"{algorithm_label(base)} + {_AVERAGES[average]}"
    return _LABELS.get(name, name)


def algorithm_order(name: str) -> tuple[int, str]:
    """Sorting key: plain models, the catalogue in its order, then others by name."""
    # A variant follows its base: "erm-balanced" and "erm+sma" come after "erm".
    plain = name.partition("+")[0]
    base = plain.partition("-")[0] if plain in METHODS and plain not in _ALGORITHMS else plain
    return _rank(base, [*PLAIN_MODELS, *_ALGORITHMS]), name


def list_algorithms(runs: pd.DataFrame) -> list[str]:
    """Algorithms of the runs, in the order of a table."""
    return sorted(set(runs["algorithm"]), key=algorithm_order)


def term_label(term: str) -> str:
    """Label of a logged term; unknown names are returned unchanged."""
    return _TERM_LABELS.get(term, term)


def term_order(term: str) -> tuple[int, str]:
    """Sorting key: cross-entropy, the terms of the catalogue from CMA's on, then others by name."""
    return _rank(term, _TERM_LABELS), term


def dataset_order(name: str) -> tuple[int, str]:
    """Sorting key: digits, images, group sets, then others by name."""
    return _rank(name, dataset_names()), name


def dataset_labels(names: Iterable[str]) -> dict[str, str]:
    """Labels of data sets: names as they are, the last part of absolute paths, with parents where labels would clash.

    Example:
        >>> dataset_labels(["pacs", "/data/birds.parquet"])
        {'pacs': 'pacs', '/data/birds.parquet': 'birds'}
        >>> list(dataset_labels(["/one/clip/birds.npz", "/two/clip/birds.npz", "/two/bert/birds.npz"]).values())
        ['one/clip/birds', 'two/clip/birds', 'bert/birds']
        >>> list(dataset_labels(["/birds.csv?target=sex&domain=lake", "/birds.csv?target=age&domain=lake"]).values())
        ['birds?target=sex', 'birds?target=age']
    """
    readings: dict[str, dict[str, list[str]]] = {}
    for name in names:
        readings.setdefault(spec_path(name), {})[name] = name[len(spec_path(name)) + 1 :].split("&")
    parts = {}
    for path, options in readings.items():
        for name, pairs in options.items():  # of the options of a table, those in which its readings differ
            differing = [pair for pair in pairs if pair and any(pair not in other for other in options.values())]
            parts[name] = _parts(path, f"?{'&'.join(differing)}" if differing else "")
    stems = Counter((*folders, stem) for folders, stem, _ in parts.values())
    # Files that differ in their suffix only keep it.
    ends = {name: stem if stems[*folders, stem] == 1 else last for name, (folders, stem, last) in parts.items()}
    depths = dict.fromkeys(parts, 0)
    while True:
        labels = {name: "/".join((*parts[name][0][len(parts[name][0]) - depths[name] :], ends[name])) for name in parts}
        times = Counter(labels.values())
        # A name that is not a path has no folders to add; the path of the same label has.
        more = [name for name, label in labels.items() if times[label] > 1 and depths[name] < len(parts[name][0])]
        if not more:
            return labels
        for name in more:
            depths[name] += 1


def _parts(name: str, options: str) -> tuple[tuple[str, ...], str, str]:
    """Parent folders of a path, its last part without and with the suffix; other names have no folders."""
    for path in (PurePath(name), PureWindowsPath(name)):
        if path.is_absolute() and path.name:
            ending = next((ending for ending in TABLE_SUFFIXES if path.name.lower().endswith(ending)), "")
            stem = path.name[: len(path.name) - len(ending)] or path.name
            return tuple(part.strip("/\\") for part in path.parts[:-1]), stem + options, path.name + options
    return (), name + options, name + options


def domain_head(dataset: str, domain: str) -> str:
    """Column title of a domain."""
    return _HEADS.get(dataset, {}).get(domain, domain)


def _rank(name: str, known: Iterable[str]) -> int:
    order = list(known)
    return order.index(name) if name in order else len(order)
