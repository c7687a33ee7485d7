from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from momentalign.tables import Column, TableEncoder, TableModel, predict_file

COLUMNS = (Column("x", fill=1.0), Column("kind", categories=("u", "v")))
ENCODER = TableEncoder(COLUMNS, np.zeros(3), np.ones(3))
MODEL = TableModel(ENCODER, np.array([[2.0, 1.0, -1.0]]), np.array([-1.5]), ("no", "yes"), {"target": "label"})
NUMBERS = TableModel(ENCODER, MODEL.coef, MODEL.intercept, None, {"target": "label", "domain": "site"})
ROWS: dict[str, Any] = {"x": [2.0, 0.0, None], "kind": ["u", "v", "w"], "file": ["a.png", "b.png", "c.png"]}


def write(path: Path, **more: Any) -> Path:
    pd.DataFrame({**ROWS, **more}).to_csv(path, index=False)
    return path


def test_predictions_of_a_file(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv")
    predicted = predict_file(MODEL, rows, tmp_path / "deep" / "out.csv")
    assert predicted.rows == 3
    assert predicted.copied == ("file",)
    assert any("kind (1)" in note for note in predicted.notes)
    assert predicted.scores is None
    found = pd.read_csv(tmp_path / "deep" / "out.csv")
    assert found.columns.tolist() == ["file", "predicted", "p_no", "p_yes"]
    assert found["predicted"].tolist() == ["yes", "no", "yes"]
    predict_file(MODEL, rows, tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), found, check_exact=False)
    with pytest.raises(ValueError, match=r"should end in \.csv or \.parquet, but is"):
        predict_file(MODEL, rows, tmp_path / "out.txt")


def test_columns_that_identify_rows_are_copied(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", id=[7, 8, 9], patient=["=1+1", "-1", "p"])
    predict_file(MODEL, rows, tmp_path / "out.csv", id_column="patient")
    found = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert found.columns.tolist()[:4] == ["id", "file", "patient", "predicted"]
    assert found["id"].tolist() == ["7", "8", "9"]
    assert found["patient"].tolist() == ["'=1+1", "-1", "p"]  # a spreadsheet would run the first
    predict_file(MODEL, rows, tmp_path / "out.parquet", id_column="patient")
    assert pd.read_parquet(tmp_path / "out.parquet")["patient"].tolist() == ["=1+1", "-1", "p"]
    with pytest.raises(ValueError, match=r"should have a column 'Patient' \(id\), .* with --id\. .*mean 'patient'"):
        predict_file(MODEL, rows, tmp_path / "no.csv", id_column="Patient")
    clash = write(tmp_path / "clash.csv", predicted=[1, 2, 3])
    with pytest.raises(ValueError, match="another name than the predictions, but is 'predicted'"):
        predict_file(MODEL, clash, tmp_path / "no.csv", id_column="predicted")
    assert not (tmp_path / "no.csv").exists()


def test_rows_with_labels_are_scored_by_domain(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", label=["yes", "maybe", None], domain=["s", "s", "t"])
    predicted = predict_file(MODEL, rows, tmp_path / "out.csv")
    assert predicted.scores is not None
    assert predicted.scores.rows == (("domain", "s", 2),)
    assert predicted.scores.values.ravel().tolist() == [0.5]
    assert predicted.notes[-2:] == [
        "1 row without 'label' not scored.",
        "Labels that the model does not know count as wrong: maybe.",
    ]


def test_domains_are_scored_in_the_order_of_their_names(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", label=["yes", "no", "yes"], domain=["t", "s", "r"])
    predicted = predict_file(MODEL, rows, tmp_path / "out.csv")
    assert predicted.scores is not None
    assert [name for _, name, _ in predicted.scores.rows] == ["r", "s", "t", "mean", "worst domain"]


def test_a_regression_is_scored(tmp_path: Path) -> None:
    truth = NUMBERS.logits(pd.DataFrame(ROWS))[0][:, 0]
    rows = write(tmp_path / "rows.csv", label=truth, site=[1, 1, 2])
    predicted = predict_file(NUMBERS, rows, tmp_path / "out.csv")
    assert predicted.scores is not None
    assert [name for _, name, _ in predicted.scores.rows] == ["1", "2", "mean", "worst domain"]
    assert predicted.scores.values[0, 0].tolist() == [1.0, 0.0]
    text = predict_file(NUMBERS, write(tmp_path / "rows.csv", label=["a", "b", "c"]), tmp_path / "out.csv")
    assert text.scores is None
    assert text.notes[-1].startswith("The rows were not scored. The target of a regression should hold numbers")


def test_a_file_without_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,kind\n")
    with pytest.raises(ValueError, match=r"rows.csv should have rows to predict, but has none"):
        predict_file(MODEL, tmp_path / "rows.csv", tmp_path / "out.csv")
