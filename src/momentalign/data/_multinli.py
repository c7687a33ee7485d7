"""MultiNLI: does the first sentence imply the second? The label goes with negation in the second."""

import json
import string
from pathlib import Path

from momentalign.data._dataset import DomainDataset
from momentalign.data._groups import group_dataset, integers, read_columns
from momentalign.data._items import Texts
from momentalign.data._parsed import FOLDER as CACHE
from momentalign.data._parsed import parsed_columns

FOLDER = "multinli_1.0"
# In the order in which the rows of the metadata count them.
PARTS = ("multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl", "multinli_1.0_dev_mismatched.jsonl")
METADATA = "metadata_random.csv"
CLASSES = ("contradiction", "entailment", "neutral")
FIELDS = ("gold_label", "sentence1", "sentence2", "pairID")
NEGATIONS = frozenset({"nobody", "no", "never", "nothing"})
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def has_negation(sentence: str) -> bool:
    """Whether a sentence has one of the words nobody, no, never, nothing.

    Words are what stands between spaces after punctuation has been deleted and letters made small.

    Args:
        sentence: Any sentence.

    Returns:
        Whether there is one.

    Example:
        >>> has_negation("No, that is not so."), has_negation("He knows nothing-like things.")
        (True, False)
    """
    return not NEGATIONS.isdisjoint(sentence.translate(_NO_PUNCTUATION).lower().split(" "))


def read_multinli(root: Path) -> DomainDataset:
    """MultiNLI with the split of the worst-group protocol, a random half, fifth and three tenths of all labelled pairs.

    That split is one draw, which only its published table `metadata_random.csv` holds: the row number in the three
    files one after the other, the label, whether there is a negation, and the split. The first two are checked against
    the texts. What was read of the corpus is kept in `.cache` of the data folder, where that can be written to.

    Args:
        root: Data folder, with `multinli_1.0` and in it the three .jsonl files of the corpus and the table.

    Returns:
        206,175 pairs to train on, 82,462 to validate, 123,712 to test, in the published set.

    Raises:
        ValueError: A file has another format, or the table belongs to other texts.
    """
    folder = root / FOLDER
    table = folder / METADATA
    rows = read_columns(table, ("", "gold_label", "sentence2_has_negation", "split"), "multinli")
    numbers = [int(row[0]) if row[0].isdecimal() else -1 for row in rows]
    labels, negations, splits = (
        integers(rows, k, table, allowed) for k, allowed in ((1, (0, 1, 2)), (2, (0, 1)), (3, (0, 1, 2)))
    )
    parts = [folder / part for part in PARTS]
    for part in parts:
        if not part.exists():
            raise FileNotFoundError(f"{part} does not exist. Run 'momentalign data fetch multinli', or put it there.")
    columns = parsed_columns(
        root / CACHE / f"{FOLDER}.parquet", parts, FIELDS, lambda: _columns([p for f in parts for p in _read_pairs(f)])
    )
    pairs = list(zip(*columns, strict=True))
    for row, (number, label, negation) in enumerate(zip(numbers, labels, negations, strict=True)):
        fits = 0 <= number < len(pairs) and pairs[number][0] == CLASSES[label]
        if not fits or has_negation(pairs[number][2]) != bool(negation):
            raise ValueError(
                f"{table}: row {row + 1} should be about pair {number} of the {len(pairs)} in {folder.name}, but its "
                "label or negation is another. The table and the texts should both be the published ones."
            )
    chosen = [pairs[number] for number in numbers]
    texts = Texts([pair[1] for pair in chosen], [pair[2] for pair in chosen], [pair[3] for pair in chosen])
    return group_dataset(
        "multinli", texts, labels, negations, splits, classes=CLASSES, attribute_names=("no negation", "negation")
    )


def _columns(pairs: list[tuple[str, ...]]) -> list[list[str]]:
    return [[pair[field] for pair in pairs] for field in range(len(FIELDS))]


def _read_pairs(path: Path) -> list[tuple[str, ...]]:
    """Label, premise, hypothesis and identifier of each line."""
    pairs = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            try:
                pair = json.loads(line)
                pairs.append(tuple(str(pair[field]) for field in FIELDS))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{path}: line {number + 1} should be a JSON object with gold_label, sentence1, sentence2 and "
                    f"pairID, but is not ({type(error).__name__}: {error})."
                ) from None
    return pairs
