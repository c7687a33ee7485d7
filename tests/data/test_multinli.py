from pathlib import Path

import pytest

from momentalign.data import Texts, load_dataset
from momentalign.data._multinli import has_negation
from tests.data.files import MULTINLI_METADATA, write_csv, write_multinli

HEADER = ("", "gold_label", "sentence2_has_negation", "split")


@pytest.mark.parametrize(
    ("sentence", "negated"),
    [
        ("Nobody came.", True),
        ("It is NO use", True),
        ("I never, ever did", True),
        ("nothing", True),
        ("He said 'no'.", True),
        ("There is none.", False),
        ("It is not so, and can't be.", False),
        ("A noble cause now.", False),
        ("A no-win situation", False),  # deleting punctuation makes it one word
        ("no\nbreak", False),  # words stand between spaces
        ("", False),
    ],
)
def test_negation_rule(sentence: str, negated: bool) -> None:
    assert has_negation(sentence) is negated


@pytest.mark.filterwarnings("ignore:multinli. domain")  # seven pairs do not fill all splits
def test_multinli(tmp_path: Path) -> None:
    write_multinli(tmp_path)
    data = load_dataset("multinli", root=tmp_path)
    assert data.names == ("no negation", "negation")
    assert data.classes == ("contradiction", "entailment", "neutral")
    assert data.training_recipe == "text"
    assert data.group_names is not None
    assert data.group_names[5] == "neutral, negation"
    found = {}
    for domain, splits in data.domains.items():
        for split, rows in splits.items():
            assert isinstance(rows.inputs, Texts)
            assert rows.inputs.second is not None
            assert rows.groups is not None
            for k, name in enumerate(rows.inputs.names):
                texts = rows.inputs.first[k], rows.inputs.second[k]
                found[name] = (domain, split, int(rows.targets[k]), int(rows.groups[k]), *texts)
    assert found == {
        "train0n": ("negation", "train", 2, 5, "Premise 0 of train.", "Nobody came."),
        "train2n": ("no negation", "train", 1, 2, "Premise 2 of train.", "They left."),
        "train3n": ("negation", "val", 0, 1, "Premise 3 of train.", "No!"),
        "dev_matched0n": ("negation", "test", 0, 1, "Premise 0 of dev_matched.", "He knows nothing at all."),
        "dev_matched1n": ("no negation", "train", 2, 4, "Premise 1 of dev_matched.", "A noble cause."),
        "dev_mismatched0n": ("negation", "train", 1, 3, "Premise 0 of dev_mismatched.", "It never, ever rains."),
        "dev_mismatched1n": ("no negation", "val", 0, 0, "Premise 1 of dev_mismatched.", "It rains."),
    }


def test_missing_files_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"metadata_random\.csv does not exist\. Run 'momentalign data fetch mul"
    ):
        load_dataset("multinli", root=tmp_path)
    (write_multinli(tmp_path) / "multinli_1.0_dev_matched.jsonl").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"dev_matched\.jsonl does not exist\. Run 'momentalign data fetch multinli'"
    ):
        load_dataset("multinli", root=tmp_path)


@pytest.mark.parametrize("row", [(0, 1, 1, 0), (0, 2, 0, 0), (1, 0, 1, 0), (99, 2, 1, 0), ("x", 2, 1, 0)])
def test_table_of_other_texts(row: tuple[object, ...], tmp_path: Path) -> None:
    folder = write_multinli(tmp_path)
    write_csv(folder / "metadata_random.csv", HEADER, [*MULTINLI_METADATA[1:3], row])
    with pytest.raises(
        ValueError, match=r"metadata_random\.csv: row 3 should be about pair .* of the 8 in multinli_1\.0"
    ):
        load_dataset("multinli", root=tmp_path)


@pytest.mark.parametrize("line", ["{", '{"gold_label": "neutral"}', "[]"])
def test_lines_of_another_format(line: str, tmp_path: Path) -> None:
    folder = write_multinli(tmp_path)
    (folder / "multinli_1.0_train.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=r"multinli_1\.0_train\.jsonl: line 1 should be a JSON object with gold_label"):
        load_dataset("multinli", root=tmp_path)
