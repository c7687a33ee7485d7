"""Names in print, and their order."""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath, PureWindowsPath

from momentalign.algorithms import algorithm_names, find_algorithm
from momentalign.data import dataset_names
from momentalign.probing import METHODS

_LABELS = {name: find_algorithm(name).label for name in algorithm_names()}
_LABELS |= {name: method.label for name, method in METHODS.items() if name not in _LABELS}
_TABLES = (".csv.gz", ".csv", ".parquet", ".npz")
# Column heads as the field prints them; other data sets show their domains' names in full.
_HEADS = {
    "vlcs": {"Caltech101": "C", "LabelMe": "L", "SUN09": "S", "VOC2007": "V"},
    "pacs": {"art_painting": "A", "cartoon": "C", "photo": "P", "sketch": "S"},
    "office-home": {"Art": "A", "Clipart": "C", "Product": "P", "Real World": "R"},
    "terra-incognita": {"location_100": "L100", "location_38": "L38", "location_43": "L43", "location_46": "L46"},
}


def algorithm_label(name: str) -> str:
    """An algorithm's name in print; names that are not ours stay as they are."""
    return _LABELS.get(name, name)


def algorithm_order(name: str) -> tuple[int, str]:
    """Sorting key: ours from the plainest on, then others by name."""
    # A variant follows what it is a variant of: "erm-balanced" comes after "erm".
    known = algorithm_names()
    own = name if name in known else name.partition("-")[0] if name in METHODS else ""
    return (known.index(own) if own in known else len(known), name)


def dataset_order(name: str) -> tuple[int, str]:
    """Sorting key: digits, images, group sets, then others by name."""
    known = dataset_names()
    return (known.index(name) if name in known else len(known), name)


def dataset_labels(names: Iterable[str]) -> dict[str, str]:
    """What data sets are called in print: files and folders, which are named by absolute paths, by their last part.

    Args:
        names: All data sets of a table or page: those that would be called the same get as much more of their paths
            as tells them apart.

    Returns:
        A different label for each name.

    Example:
        >>> dataset_labels(["pacs", "/data/birds.parquet"])
        {'pacs': 'pacs', '/data/birds.parquet': 'birds'}
        >>> list(dataset_labels(["/one/clip/birds.npz", "/two/clip/birds.npz", "/two/bert/birds.npz"]).values())
        ['one/clip/birds', 'two/clip/birds', 'bert/birds']
    """
    parts = {name: _parts(name) for name in names}
    stems = Counter((*folders, stem) for folders, stem, _ in parts.values())
    # Files that differ in nothing else keep their endings.
    ends = {name: stem if stems[*folders, stem] == 1 else last for name, (folders, stem, last) in parts.items()}
    depths = dict.fromkeys(parts, 0)
    while True:
        labels = {name: "/".join((*parts[name][0][len(parts[name][0]) - depths[name] :], ends[name])) for name in parts}
        times = Counter(labels.values())
        # A name that is no path has nothing to add, so it is the path beside it that gets longer.
        more = [name for name, label in labels.items() if times[label] > 1 and depths[name] < len(parts[name][0])]
        if not more:
            return labels
        for name in more:
            depths[name] += 1


def _parts(name: str) -> tuple[tuple[str, ...], str, str]:
    """Folders above a path, its last part without and with its ending; of a name that is no path the name itself."""
    for path in (PurePath(name), PureWindowsPath(name)):
        if path.is_absolute() and path.name:
            ending = next((ending for ending in _TABLES if path.name.lower().endswith(ending)), "")
            stem = path.name[: len(path.name) - len(ending)] or path.name
            return tuple(part.strip("/\\") for part in path.parts[:-1]), stem, path.name
    return (), name, name


def domain_head(dataset: str, domain: str) -> str:
    """What stands above a domain's column."""
    return _HEADS.get(dataset, {}).get(domain, domain)
