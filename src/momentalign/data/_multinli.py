"""MultiNLI: whether a sentence implies another; the label is correlated with negation in the second."""

import contextlib
import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from momentalign._files import atomic_file
from momentalign._json import parse_json
from momentalign.data._dataset import DomainDataset
from momentalign.data._groups import group_dataset, integers, read_columns
from momentalign.data._items import Texts

_FOLDER = "multinli_1.0"
# In the order of the row numbers in the metadata.
_PARTS = ("multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl", "multinli_1.0_dev_mismatched.jsonl")
_METADATA = "metadata_random.csv"
_CLASSES = ("contradiction", "entailment", "neutral")
_FIELDS = ("gold_label", "sentence1", "sentence2", "pairID")
_NEGATIONS = frozenset({"nobody", "no", "never", "nothing"})
_CACHE = ".cache"
"""In the data folder, beside the data sets' own folders, which only hold what was downloaded."""
_CACHE_FORMAT = 1
_CACHE_KEY = b"momentalign"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def has_negation(sentence: str) -> bool:
    """Whether a sentence has one of the words nobody, no, never, nothing.

    Words are separated by spaces, after punctuation has been removed and letters made lower-case.

    Example:
        >>> has_negation("No, that is not so."), has_negation("He knows nothing-like things.")
        (True, False)
    """
    return not _NEGATIONS.isdisjoint(sentence.translate(_NO_PUNCTUATION).lower().split(" "))


def read_multinli(root: Path) -> DomainDataset:
    """MultiNLI with the split of the worst-group protocol, a random half, fifth and three tenths of all labelled pairs.

    That split is a single draw, published as `metadata_random.csv`: row number in the three concatenated files, label,
    negation and split. Label and negation are checked against the texts. The parsed corpus is cached in the data
    folder. The published set has 206,175 training, 82,462 validation and 123,712 test pairs.
    """
    folder = root / _FOLDER
    table = folder / _METADATA
    rows = read_columns(table, ("", "gold_label", "sentence2_has_negation", "split"), "multinli")
    numbers = [int(row[0]) if row[0].isdecimal() else -1 for row in rows]
    labels, negations, splits = (
        integers(rows, k, table, allowed) for k, allowed in ((1, (0, 1, 2)), (2, (0, 1)), (3, (0, 1, 2)))
    )
    parts = [folder / part for part in _PARTS]
    for part in parts:
        if not part.exists():
            raise FileNotFoundError(f"{part} does not exist. Run 'momentalign data fetch multinli', or put it there.")
    pairs = _cached_pairs(root / _CACHE / f"{_FOLDER}.parquet", parts)
    for row, (number, label, negation) in enumerate(zip(numbers, labels, negations, strict=True)):
        fits = 0 <= number < len(pairs) and pairs[number][0] == _CLASSES[label]
        if not fits or has_negation(pairs[number][2]) != bool(negation):
            raise ValueError(
                f"{table}: row {row + 1} should be about pair {number} of the {len(pairs)} in {folder.name}, but its "
                "label or negation differs. The table and the texts should both be the published ones."
            )
    chosen = [pairs[number] for number in numbers]
    texts = Texts([pair[1] for pair in chosen], [pair[2] for pair in chosen], [pair[3] for pair in chosen])
    return group_dataset(
        "multinli", texts, labels, negations, splits, classes=_CLASSES, attribute_names=("no negation", "negation")
    )


def _cached_pairs(cache: Path, parts: Sequence[Path]) -> list[tuple[str, ...]]:
    """Pairs of all parts, from a parquet file if it was written for these very files, else parsed and then cached.

    Files are identified by name, size and modification time. Where nothing can be written or pyarrow is not installed,
    they are parsed every time.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        return [pair for part in parts for pair in _read_pairs(part)]
    identities = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in parts]
    key = json.dumps({"format": _CACHE_FORMAT, "columns": list(_FIELDS), "files": identities}).encode()
    cached = _read_cache(pyarrow, parquet, cache, key)
    if cached is not None:
        return cached
    pairs = [pair for part in parts for pair in _read_pairs(part)]
    # A read-only folder, a full disk or text that is not proper Unicode: it works without a cache.
    with contextlib.suppress(OSError, UnicodeError, pyarrow.ArrowException):
        columns = {name: [pair[index] for pair in pairs] for index, name in enumerate(_FIELDS)}
        table = pyarrow.table(columns).replace_schema_metadata({_CACHE_KEY: key})
        cache.parent.mkdir(exist_ok=True)
        with atomic_file(cache) as unfinished:
            parquet.write_table(table, unfinished, compression="zstd")
    return pairs


def _read_cache(pyarrow: Any, parquet: Any, cache: Path, key: bytes) -> list[tuple[str, ...]] | None:
    try:
        if (parquet.read_schema(cache).metadata or {}).get(_CACHE_KEY) != key:
            return None
        table = parquet.read_table(cache)
        return list(zip(*(table.column(name).to_pylist() for name in _FIELDS), strict=True))
    except (OSError, pyarrow.ArrowException, KeyError):  # none yet, or a broken one
        return None


def _read_pairs(path: Path) -> list[tuple[str, ...]]:
    """Label, premise, hypothesis and identifier of each line."""
    pairs = []
    with path.open("rb") as file:
        for number, line in enumerate(file):
            try:
                pair = parse_json(line)
                pairs.append(tuple(str(pair[field]) for field in _FIELDS))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{path}: line {number + 1} should be a JSON object with gold_label, sentence1, sentence2 and "
                    f"pairID, but is not ({type(error).__name__}: {error})."
                ) from None
    return pairs
