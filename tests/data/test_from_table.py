import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from momentalign.data import Split, TableRows, load_dataset, table_dataset
from momentalign.tables import Table, read_table

REAL = Path(os.environ.get("MOMENTALIGN_DATA", "")) / "amazon-reviews" / "amazon_minilm_384d_fp16.npz"


def frame(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, n),
            "kind": rng.choice(["a", "b"], n),
            "y": np.where(np.arange(n) % 4 == 0, "ill", "well"),
            "domain": np.where(np.arange(n) % 2 == 0, "Zurich", "Basel"),
        }
    )


def values(rows: Split) -> pd.DataFrame:
    assert isinstance(rows.inputs, TableRows)
    assert len(rows.inputs) == len(rows)
    return rows.inputs.frame


def test_table_file_is_a_data_set(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "heart.csv", index=False)
    with pytest.warns(UserWarning, match="domain 'Basel' has no rows of 1 of the classes: ill"):
        data = load_dataset(tmp_path / "heart.csv")
    assert (data.name, data.num_classes, data.training_recipe) == ("heart.csv", 2, "table")
    assert data.classes == ("ill", "well")
    assert data.names == ("Zurich", "Basel")  # as they first appear
    assert [len(data.split("Zurich", split)) for split in ("in", "out")] == [16, 4]
    rows = pd.concat([values(data.split(d, s)) for d in data.names for s in ("in", "out")])
    pd.testing.assert_frame_equal(rows.sort_index(), pd.read_csv(tmp_path / "heart.csv")[["age", "kind"]])


def test_rows_stay_together(tmp_path: Path) -> None:
    table = pd.DataFrame({"x": np.arange(30.0), "y": np.arange(30) % 3, "domain": ["a", "b"] * 15})
    table.to_parquet(tmp_path / "t.parquet")
    data = load_dataset(tmp_path / "t.parquet")
    assert data.classes == ("0", "1", "2")
    for name, parity in (("a", 0), ("b", 1)):
        for split in ("in", "out"):
            rows = data.split(name, split)
            number = torch.tensor(values(rows)["x"].to_numpy()).long()
            assert torch.equal(number % 3, rows.targets)
            assert set((number % 2).tolist()) == {parity}


def test_published_splits_and_groups_are_kept(tmp_path: Path) -> None:
    n = 24
    columns = {"x": np.arange(n) * 1.0, "y": np.arange(n) % 2, "domain": np.where(np.arange(n) < 12, "land", "water")}
    columns |= {"split": np.array(["train", "val", "test"])[np.arange(n) % 3], "group": [f"g{k % 4}" for k in range(n)]}
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    data = load_dataset(tmp_path / "t.csv")
    assert data.split_names == ("train", "val", "test")
    assert data.group_names == ("g0", "g1", "g2", "g3")
    rows = data.split("water", "val")
    assert values(rows)["x"].tolist() == [13, 16, 19, 22]
    assert isinstance(rows.inputs, TableRows)
    assert rows.inputs.names == ["13", "16", "19", "22"]
    assert rows.groups is not None
    assert rows.groups.tolist() == [1, 0, 3, 2]
    assert rows.targets.tolist() == [1, 0, 1, 0]


def test_many_numbers_are_a_regression(tmp_path: Path) -> None:
    table = pd.DataFrame({"x": np.arange(50.0), "y": np.arange(50) / 7, "domain": ["a", "b"] * 25})
    table.to_csv(tmp_path / "t.csv", index=False)
    data = table_dataset(read_table(tmp_path / "t.csv"), name="prices", holdout=0)
    assert data.is_regression
    assert data.num_classes == 1
    assert data.split("b", "in").targets.dtype == torch.float32
    np.testing.assert_allclose(sorted(data.split("b", "in").targets.tolist()), np.arange(1, 50, 2) / 7, rtol=1e-6)


def test_whole_numbers_read_as_floats_keep_their_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y,domain\n" + "".join(f"{k},{k % 2}.0,a\n" for k in range(10)))
    assert load_dataset(tmp_path / "t.csv").classes == ("0", "1")


def test_rows_of_a_table_are_told_apart() -> None:
    rows = TableRows(pd.DataFrame({"x": [1.0, 2.0], "kind": ["a", None]}))
    assert rows.names == ["0", "1"]
    again = TableRows.joined([rows.rows(torch.tensor([0])), rows.rows(torch.tensor([1]))])
    assert again.digest_bytes() == rows.digest_bytes()
    others = [rows.frame.assign(x=[1.0, 3.0]), rows.frame.assign(x=[1, 2]), rows.frame.rename(columns={"x": "z"})]
    assert len({TableRows(other).digest_bytes() for other in (rows.frame, *others)}) == 4
    with pytest.raises(ValueError, match=r"'names' should have one entry per row \(2\), but has 1"):
        TableRows(rows.frame, ["a"])


@pytest.mark.skipif("MOMENTALIGN_DATA" not in os.environ or not REAL.exists(), reason=f"needs {REAL.name}")
def test_amazon_reviews() -> None:
    data = load_dataset(REAL)
    assert data.names == ("books", "dvd", "electronics", "kitchen_&_housewares")
    assert [len(data.split(name, "in")) for name in data.names] == [1600] * 4


def test_large_numbers_are_classes_of_their_own() -> None:
    rows = pd.DataFrame({"x": np.arange(6.0)})
    table = Table(rows, np.array([1234567.0, 1234568.0, 0.5] * 2), np.array(["a", "b"] * 3), ())
    assert table_dataset(table, name="t").classes == ("0.5", "1234567", "1234568")
