from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from momentalign.data import domain_dataset, holdout_indices
from momentalign.training import make_config, run


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
        ([("a", GOOD), ("a", GOOD)], "different names, but 'a' is there twice"),
        ([("a", Rows([]))], "data set of 'a' should have rows, but is empty"),
        ([("a", Rows([torch.zeros(3)]))], "Row 0 of 'a' should be a pair of input and class, but is Tensor"),
        ([("a", Rows([("pixels", 1)]))], "input of row 0 of 'a' should be a tensor or an array, but is a str"),
        ([("a", Rows([(torch.zeros(3), 1.5)]))], "target of row 0 of 'a' should be a class 0, 1, …, but is 1.5"),
        ([("a", Rows([(torch.zeros(3), -1)]))], "should be a class 0, 1, …, but is -1"),
        ([("a", Rows([(torch.zeros(3), 0), (torch.zeros(4), 0)]))], r"row 0 has \(3,\) and row 1 \(4,\)"),
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

    with pytest.raises(TypeError, match="data set of 'a' should have a length, but is a Stream"):
        domain_dataset("d", [("a", Stream())])
