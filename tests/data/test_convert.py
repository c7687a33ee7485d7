import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from momentalign.data import Split, TableRows, domain_dataset, holdout_indices, load_dataset, table_dataset
from momentalign.tables import Table, read_table
from momentalign.training import make_config, run

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
    assert again.content() == rows.content()
    others = [rows.frame.assign(x=[1.0, 3.0]), rows.frame.assign(x=[1, 2]), rows.frame.rename(columns={"x": "z"})]
    assert len({TableRows(other).content() for other in (rows.frame, *others)}) == 4
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


class Rows(Dataset[Any]):
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


def test_any_torch_dataset_is_a_domain() -> None:
    first = TensorDataset(torch.arange(10.0).unsqueeze(1), torch.arange(10) % 3)
    second = Rows([(np.array([float(k)], np.float32), np.int64(k % 2)) for k in range(5)])
    data = domain_dataset("mine", [("first", first), ("second", second)], trial=1)
    assert data.names == ("first", "second")
    assert (data.num_classes, data.training_recipe) == (3, "table")
    inside, outside = holdout_indices(5, trial=1, domain=1)
    assert data.split("second", "in").tensor[:, 0].tolist() == inside.tolist()
    assert data.split("second", "out").targets.tolist() == [k % 2 for k in outside.tolist()]
    assert data.split("first", "in").targets.dtype == torch.int64


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_floating_point_rows_of_any_precision_can_be_trained(dtype: type[np.floating[Any]]) -> None:
    rng = np.random.default_rng(0)
    rows = [(name, Rows([(rng.normal(size=4).astype(dtype), k % 2) for k in range(20)])) for name in ("a", "b")]
    data = domain_dataset("sites", rows)
    assert data.split("a", "in").tensor.dtype == torch.float32
    records = run(make_config(data, steps=2, hparams={"batch_size": 4}), None, data=data)
    assert any(record["metric"] == "accuracy" for record in records)


def test_options() -> None:
    rows = TensorDataset(torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]))
    data = domain_dataset("d", [("a", rows)], num_classes=3, classes="xyz", training_recipe="image", holdout=0.5)
    assert data.classes == ("x", "y", "z")
    assert data.training_recipe == "image"
    assert len(data.split("a", "out")) == 2
    assert data.split("a", "in").tensor.dtype == torch.uint8
    assert domain_dataset("d", [("a", rows)], classes="xyz").num_classes == 3


GOOD = TensorDataset(torch.zeros(2, 3), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ([], "at least one pair of a name and a data set"),
        ([("a", GOOD), ("a", GOOD)], "different names, but 'a' occurs twice"),
        ([("a", Rows([]))], "data set of 'a' should have .*empty"),
        ([("a", Rows([torch.zeros(3)]))], "data set of 'a' should have .* pairs .* unpack"),
        ([("a", Rows([("pixels", 1)]))], "data set of 'a' should have .* a tensor.*'str'"),
        ([("a", Rows([(torch.zeros(3), 1.5)]))], "data set of 'a' should have .*'float'"),
        ([("a", Rows([(torch.zeros(3), -1)]))], "data set of 'a' should have .* the class -1 is negative"),
        ([("a", Rows([(torch.zeros(3), 0), (torch.zeros(4), 0)]))], r"data set of 'a' should have .* one shape"),
        (
            [("a", GOOD), ("b", Rows([(torch.zeros(4), 0)]))],
            r"same shape in all domains, but have \(3,\) in a, \(4,\) in b",
        ),
    ],
)
def test_bad_datasets(domains: list[tuple[str, Dataset[Any]]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        domain_dataset("d", domains)


def test_targets_beyond_the_classes() -> None:
    with pytest.raises(ValueError, match=r"below the number of classes \(1\), but the largest is 1"):
        domain_dataset("d", [("a", GOOD)], num_classes=1)


def test_streams_have_no_length() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter([])

    with pytest.raises(ValueError, match=r"data set of 'a' should have .*Stream.*len"):
        domain_dataset("d", [("a", Stream())])
