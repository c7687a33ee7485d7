"""MultiNLI: whether a sentence implies another; the label is correlated with negation in the second."""

import json
import string
from collections.abc import Iterator
from pathlib import Path

from momentalign.data._dataset import DomainDataset
from momentalign.data._groups import group_dataset, positions, read_columns
from momentalign.data._items import Texts

_FOLDER = "multinli_1.0"
# In the order of the row numbers in the metadata.
_PARTS = ("multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl", "multinli_1.0_dev_mismatched.jsonl")
_CLASSES = ("contradiction", "entailment", "neutral")
_FIELDS = ("gold_label", "sentence1", "sentence2", "pairID")
_NEGATIONS = frozenset({"nobody", "no", "never", "nothing"})
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
    negation and split. Label and negation are checked against the texts. The published set has 206,175 training, 82,462
    validation and 123,712 test pairs.
    """
    table = root / _FOLDER / "metadata_random.csv"
    rows, *columns = read_columns(table, ("", "gold_label", "sentence2_has_negation", "split"), "multinli")
    labels, negations, splits = (
        positions(column, table, range(n)) for column, n in zip(columns, (3, 2, 3), strict=True)
    )
    pairs = {str(number): pair for number, pair in enumerate(_read_pairs(root / _FOLDER))}
    chosen: list[tuple[str, ...]] = []
    for number, label, negation in zip(rows, labels, negations, strict=True):
        pair = pairs.get(number)
        if pair is None or pair[0] != _CLASSES[label] or has_negation(pair[2]) != bool(negation):
            raise ValueError(
                f"{table}: row {len(chosen) + 1} should be about pair {number} of the {len(pairs)} in {_FOLDER}, but "
                "label or negation differs. The table and the texts should both be the published ones."
            )
        chosen.append(pair)
    texts = Texts(*([pair[k] for pair in chosen] for k in (1, 2, 3)))
    return group_dataset(
        "multinli", texts, labels, negations, splits, classes=_CLASSES, attribute_names=("no negation", "negation")
    )


def _read_pairs(folder: Path) -> Iterator[tuple[str, ...]]:
    """Label, premise, hypothesis and identifier of each pair."""
    for path in (folder / part for part in _PARTS):
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist. Run 'momentalign data fetch multinli', or put it there.")
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file):
                try:
                    pair = json.loads(line)
                    yield tuple(str(pair[field]) for field in _FIELDS)
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{path}: line {number + 1} should be a JSON object with {', '.join(_FIELDS)}: {error!r}."
                    ) from None
