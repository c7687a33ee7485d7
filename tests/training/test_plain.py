"""Plain models of scikit-learn as runs beside networks, on the same rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from momentalign.algorithms import PLAIN_MODELS
from momentalign.data import TableRows, load_dataset
from momentalign.runs import read_run
from momentalign.training import make_config, make_plain_config, run_plain


def table(folder: Path, *, flip: str = "", rows: int = 120) -> str:
    """Two numbers, three domains; the labels of domain `flip` are turned round."""
    rng = np.random.default_rng(0)
    X = rng.normal([5.0, 1.0], [3.0, 0.1], (rows, 2))
    domain = np.array(["a", "b", "c"])[np.arange(rows) % 3]
    y = ((X[:, 0] - 5) / 3 + rng.normal(size=rows) > 0) ^ (domain == flip)
    frame = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "y": np.where(y, "ill", "well"), "domain": domain})
    frame.to_csv(folder / "t.csv", index=False)
    return str(folder / "t.csv")


def accuracies(records: list[Any]) -> dict[tuple[str, str], float]:
    return {(record["domain"], record["split"]): record["value"] for record in records}


def test_it_is_the_fit_that_a_user_would_make(tmp_path: Path) -> None:
    path = table(tmp_path)
    config = make_plain_config(path, "logistic-regression", test_domains=["c"], steps=30, trial=1)
    found = accuracies(run_plain(config, tmp_path / "run"))
    data = load_dataset(path, trial=1)

    def rows(domain: str, split: str) -> tuple[Any, Any]:
        part = data.split(domain, split)
        assert isinstance(part.inputs, TableRows)
        return part.inputs.frame[["u", "v"]].to_numpy(), part.targets.numpy()

    training = [rows(domain, "in") for domain in "ab"]
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    plain.fit(np.concatenate([X for X, _ in training]), np.concatenate([y for _, y in training]))
    assert found == {(name, split): plain.score(*rows(name, split)) for name in "abc" for split in ("in", "out")}
    info = read_run(tmp_path / "run")
    assert info["rows"]["c"] == {"in": 32, "out": 8}
    assert run_plain(config, tmp_path / "run")[0]["step"] == 29  # a finished run is read
    assert run_plain(config, None, train_accuracy=False) == [
        record
        for record in run_plain(config, None)
        if (record["domain"], record["split"]) not in {("a", "in"), ("b", "in")}
    ]


@pytest.mark.parametrize("model", PLAIN_MODELS)
def test_the_test_domain_teaches_nothing(model: str, tmp_path: Path) -> None:
    found = []
    for name, flip in (("one", ""), ("two", "c")):
        (tmp_path / name).mkdir()
        config = make_plain_config(table(tmp_path / name, flip=flip), model, test_domains=["c"], steps=5)
        found.append(accuracies(run_plain(config, None)))
    for where, value in found[0].items():
        assert found[1][where] == pytest.approx(1 - value if where[0] == "c" else value)


@pytest.mark.filterwarnings("ignore:t.csv")  # of classes that a domain lacks
def test_rare_and_single_classes(tmp_path: Path) -> None:
    frame = pd.read_csv(table(tmp_path))
    for labels in (
        ["once", *frame["y"][1:]],
        np.where(frame["domain"] == "c", "other", "same"),
        [f"k{k % 24}" for k in frame.index],
    ):
        frame.assign(y=labels).to_csv(tmp_path / "t.csv", index=False)
        config = make_plain_config(str(tmp_path / "t.csv"), "logistic-regression-cv", test_domains=["c"], steps=5)
        assert all(0 <= record["value"] <= 1 for record in run_plain(config, None))


def test_only_tables(tmp_path: Path) -> None:
    config = make_plain_config("colored-digits", "logistic-regression", test_domains=["-90%"], steps=5)
    with pytest.raises(ValueError, match=r"LogisticRegression takes rows of a table, but colored-digits is none\."):
        run_plain(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="'model' should be one of 'logistic-regression', 'logistic-regression-cv'"):
        make_plain_config("colored-digits", "lasso")
    with pytest.raises(ValueError, match="'logistic-regression' is no algorithm that trains a network"):
        make_config("colored-digits", "logistic-regression")
