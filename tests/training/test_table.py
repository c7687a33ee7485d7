"""Tables: what is known of their columns comes from the rows that are trained on, and goes where the model goes."""

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import momentalign
from momentalign.data import load_dataset, table_spec
from momentalign.runs import read_records
from momentalign.training import evaluate, make_config, run
from tests.training.problems import assert_same_weights

HEART = Path(os.environ.get("MOMENTALIGN_DATA", "/nowhere")) / "heart-disease"
COLUMNS = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
)


def patients(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ill = rng.random(n) < 0.5
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50 + 10 * ill, 8)),
            "kind": rng.choice(["a", "b"], n),
            "pulse": rng.normal(70 + 8 * ill, 6),
            "y": np.where(ill, "ill", "well"),
            "domain": np.array(["Zurich", "Basel", "Bern"])[np.arange(n) % 3],
        }
    )


def trained(frame: pd.DataFrame, folder: Path, test_domain: str = "Bern") -> Path:
    path = folder.with_suffix(".csv")
    frame.to_csv(path, index=False)
    config = make_config(str(path), test_domains=[test_domain], steps=12, record_every=11, hparams={"batch_size": 16})
    run(config, folder, accelerator="cpu")
    return folder


def test_test_domain_and_held_out_rows_teach_nothing(tmp_path: Path) -> None:
    frame = patients()
    first = trained(frame, tmp_path / "first")
    unseen = frame["domain"] == "Bern"
    other = frame.assign(
        age=frame["age"].where(~unseen, 1000 + frame["age"]),
        kind=frame["kind"].where(~unseen, "z"),
        pulse=frame["pulse"].where(~unseen, np.nan),
    )
    assert_same_weights(first, trained(other, tmp_path / "second"))
    held_out = load_dataset(first.with_suffix(".csv")).split("Basel", "out").inputs.names  # type: ignore[union-attr]
    changed = frame.copy()
    changed.loc[[int(name) for name in held_out], "age"] = 5000.0
    assert_same_weights(first, trained(changed, tmp_path / "third"))
    changed = frame.copy()
    changed.loc[~unseen, "age"] *= 2 + np.arange((~unseen).sum()) % 2  # whereas other training rows do
    with pytest.raises(AssertionError):
        assert_same_weights(first, trained(changed, tmp_path / "fourth"))


@pytest.mark.filterwarnings("ignore:(few.csv. domain|Missing values of few.csv)")
def test_another_table_is_measured_by_the_runs(tmp_path: Path) -> None:
    frame = patients()
    folder = trained(frame, tmp_path / "run")
    recorded = {(r["domain"], r["split"]): r["value"] for r in read_records(folder) if r["metric"] == "accuracy"}
    with pytest.warns(UserWarning, match=r"Missing values of run.csv were filled.*: age"):
        scores = {(s.domain, s.split): s.value for s in evaluate(folder, folder.with_suffix(".csv")) if s.split}
    assert scores == {key: pytest.approx(value) for key, value in recorded.items()}

    # A few rows, columns in another order, one more than there was, categories and pulse far from what they were.
    model = momentalign.load(folder)
    few = frame.iloc[[5, 3, 40]].assign(pulse=[300.0, 400.0, 500.0], kind=["q", "a", "r"], extra=1.0)
    few[["extra", "domain", "pulse", "y", "kind", "age"]].to_csv(tmp_path / "few.csv", index=False)
    named = model.predict(few)
    alone = [model.predict(few.iloc[[row]])[0] for row in range(3)]
    assert named == alone
    with pytest.warns(UserWarning, match=r"that no training row has were ignored: kind \(2\)\."):
        found = evaluate(folder, tmp_path / "few.csv")
    expected = np.mean([name == label for name, label in zip(named, few["y"], strict=True)])
    assert next(s.value for s in found if s.domain is None) == pytest.approx(expected)
    age, kind, pulse = (model.preprocessing.config()["mean"][k] for k in (0, 1, 3))
    assert abs(age - 55) < 5
    assert 0.2 < kind < 0.8
    assert abs(pulse - 74) < 5


def test_tables_that_lack_a_column_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = trained(patients(), tmp_path / "run")
    patients().drop(columns="pulse").to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(ValueError, match=r"lack pulse. Columns found: age, kind. Rename or add them") as found:
        evaluate(folder, tmp_path / "other.csv")
    assert len(str(found.value).splitlines()) == 1
    model = momentalign.load(folder)
    with pytest.raises(TypeError, match=r"'inputs' should be a data frame for this model, but is a list"):
        model.predict(["a"])


def test_an_empty_column_counts_as_missing(tmp_path: Path) -> None:
    frame = patients()
    folder = trained(frame, tmp_path / "run")
    model = momentalign.load(folder)
    median = model.preprocessing.config()["columns"][2]["fill"]
    assert model.predict(frame.assign(pulse=None)) == model.predict(frame.assign(pulse=median))


def test_features_in_an_npz_file_go_the_same_way(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 90)
    X = (rng.normal(size=(90, 6)) + y[:, None] + 3).astype(np.float32)
    np.savez(tmp_path / "features.npz", X=X, y=y, domain=np.array(["a", "b", "c"])[np.arange(90) % 3])
    config = make_config(str(tmp_path / "features.npz"), test_domains=["c"], steps=4, hparams={"batch_size": 8})
    run(config, tmp_path / "run", accelerator="cpu")
    model = momentalign.load(tmp_path / "run")
    recorded = {
        (r["domain"], r["split"]): r["value"]
        for r in read_records(tmp_path / "run")
        if r["step"] == 3 and r["metric"] == "accuracy"
    }
    part = load_dataset(tmp_path / "features.npz").split("c", "in")
    rows = [int(name) for name in part.inputs.names]  # type: ignore[union-attr]
    with torch.no_grad():
        right = model(torch.from_numpy(X[rows])).argmax(1) == part.targets
    assert recorded["c", "in"] == pytest.approx(right.double().mean().item())


@pytest.mark.skipif(not HEART.is_dir(), reason="needs heart-disease in $MOMENTALIGN_DATA")
def test_heart_disease_of_four_hospitals(tmp_path: Path) -> None:
    parts = []
    for path in sorted(HEART.glob("*.data")):
        part = pd.read_csv(path, header=None, names=[*COLUMNS, "num"], na_values="?")
        parts.append(part.assign(domain=path.stem.split(".")[-1]))
    table = pd.concat(parts)
    assert len(table) == 920
    table = table.assign(y=(table.pop("num") > 0).astype(int))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of missing values
        folder = trained(table, tmp_path / "heart", test_domain="hungarian")
    test = [
        r["value"]
        for r in read_records(folder)
        if (r["domain"], r["split"], r["metric"]) == ("hungarian", "in", "accuracy")
    ]
    assert test[-1] is not None
    assert test[-1] > 0.7


def test_a_run_keeps_how_its_table_is_read(tmp_path: Path) -> None:
    frame = patients(60).drop(columns="age").rename(columns={"y": "health", "domain": "town"})
    frame.to_csv(tmp_path / "a.csv", index=False, sep=";", encoding="cp1252")
    spec = table_spec(tmp_path / "a.csv", target="health", domain="town", sep=";", encoding="cp1252")
    config = make_config(spec, test_domains=["Bern"], steps=2, record_every=2, hparams={"batch_size": 8})
    assert config.dataset == f"{tmp_path / 'a.csv'}?target=health&domain=town&sep=;&encoding=cp1252"
    records = run(config, tmp_path / "run", accelerator="cpu")
    assert run(config, tmp_path / "run", accelerator="cpu") == records
    own = evaluate(tmp_path / "run", tmp_path / "a.csv")
    assert {score.domain for score in own} == {"Zurich", "Basel", "Bern", None}
    frame.to_parquet(tmp_path / "a.parquet")
    assert evaluate(tmp_path / "run", tmp_path / "a.parquet") == own
    frame.rename(columns={"town": "place"}).to_csv(tmp_path / "a.tsv", index=False, sep="\t", encoding="cp1252")
    assert evaluate(tmp_path / "run", table_spec(tmp_path / "a.tsv", domain="place")) == own
    frame.iloc[1:].to_csv(tmp_path / "a.csv", index=False, sep=";")
    with pytest.raises(ValueError, match="which has changed since"):
        run(config, tmp_path / "run", accelerator="cpu")
