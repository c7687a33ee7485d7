import pandas as pd
import pytest

from momentalign.report._accuracy_chapters import _varied
from momentalign.report._distance_chapter import _panel


@pytest.mark.parametrize(
    ("title", "texts"),
    [
        ("Gain in points", ["1.2", "0.1"]),
        ("Accuracy in %", ["1.2", "0.1"]),
        ("Distance", ["1.23", "0.12"]),
    ],
)
def test_numbers_of_a_matrix_have_the_decimals_of_their_unit(title: str, texts: list[str]) -> None:
    frame = pd.DataFrame({"row": ["a", "b"], "column": ["x", "x"], "value": [1.234, 0.123]})
    panel = _panel(frame, (["b", "a", "c"], ["x"]), ("rows", "columns"), title)
    assert [row["text"] for row in panel.rows] == texts
    assert [row["share"] for row in panel.rows] == [1, 0]


def test_hyperparameters_that_differ_are_drawn_with_their_numbers() -> None:
    hparams = pd.Series([{"lr": 0.1, "a": 1, "name": "x"}, {"lr": 0.2, "a": 1, "name": "y"}, {"a": 1, "late": True}])
    assert _varied(hparams) == [("lr", [0.1, 0.2, None])]
