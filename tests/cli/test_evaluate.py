"""`momentalign evaluate` and `momentalign.load` on the folders of probes, and on folders that are neither."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import momentalign
from momentalign.cli import app
from momentalign.tables import TableModel, plan_probe, write_probe

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table with other names of columns, and the model of its probe."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
    frame["kind"] = np.where(frame["b"] + 0.3 * rng.normal(size=90) > 0, "yes", "no")
    frame["town"] = np.repeat(["Bern", "Zürich", "Genf"], 30)
    frame["group"] = frame["kind"] + " in " + frame["town"]
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", encoding="cp1252")
    frame.to_parquet(tmp_path / "t.parquet")
    frame.drop(columns="kind").to_parquet(tmp_path / "unlabelled.parquet")
    named = {"target": "kind", "domain": "town", "sep": ";", "encoding": "cp1252"}
    plan = plan_probe(tmp_path / "t.csv", test_domain="Genf", **named)
    write_probe(plan.run(), tmp_path / "model")
    return tmp_path


def test_a_probe_is_evaluated_as_its_table_was_read(folder: Path) -> None:
    result = CliRunner().invoke(app, ["evaluate", f"{folder}/model", f"{folder}/t.csv", "-o", f"{folder}/s.csv"])
    assert result.exit_code == 0, result.output
    assert "worst domain" in result.output
    assert "Measures over groups" in result.output
    assert "The model was fitted to rows of this file" in result.output
    scores = pd.read_csv(folder / "s.csv")
    model, frame = momentalign.load(folder / "model"), pd.read_parquet(folder / "t.parquet")
    assert isinstance(model, TableModel)
    correct = model.predict(frame) == frame["kind"]
    by_domain = scores[(scores["kind"] == "domain")].set_index("name")["value"]
    for town, rows in frame.groupby("town").groups.items():
        assert by_domain[town] == pytest.approx(correct[rows].mean())
    again = CliRunner().invoke(app, ["evaluate", f"{folder}/model", f"{folder}/t.parquet"])
    assert again.exit_code == 0, again.output
    assert "was fitted to rows" not in again.output


def test_rows_without_labels_are_not_evaluated(folder: Path) -> None:
    result = CliRunner().invoke(app, ["evaluate", f"{folder}/model", f"{folder}/unlabelled.parquet"])
    assert "unlabelled.parquet should have a column 'kind' (target)" in str(result.exception)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gone", "does not exist"),
        ("t.csv", "is a file"),
        ("empty", "has neither run.json nor model.safetensors"),
        (".", "is the parent of 1 such. Name one of them, for instance .*model"),
    ],
)
def test_folders_that_are_neither(name: str, found: str, folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(
        ValueError, match=rf"\('momentalign train'\) or of a model \('momentalign probe'\), but {found}"
    ):
        momentalign.load(folder / name)
