"""What is learned of a table's columns comes from the rows that are trained on, and from no others."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from momentalign.data import DomainDataset, Split, TableRows, Texts
from momentalign.encoders import (
    MLP,
    TablePreprocessing,
    TensorPreprocessing,
    build_encoder,
    encoder_from_config,
)

TRAIN = pd.DataFrame(
    {
        "age": [50.0, np.nan, 60.0, 70.0, 10.0, 20.0],
        "kind": ["a", "b", "b", "a", "c", "a"],
        "flag": [True, False, True, True, False, False],
        "constant": [1.0] * 6,
    }
)


def learned(frame: pd.DataFrame = TRAIN) -> TablePreprocessing:
    return TablePreprocessing.learn(TableRows(frame))[0]


def inputs_of(preprocessing: TablePreprocessing, frame: pd.DataFrame) -> Tensor:
    return preprocessing.to_inputs(preprocessing.open(TableRows(frame)))


def test_training_rows_get_mean_zero_and_variance_one() -> None:
    found = inputs_of(learned(), TRAIN)
    assert found.shape == (6, 5)  # age, three kinds, flag
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(found.std(0, correction=0), 1, atol=1e-6)
    ages = TRAIN["age"].fillna(50.0)
    np.testing.assert_allclose(found[:, 0], (ages - ages.mean()) / ages.std(ddof=0), rtol=1e-5)


def test_other_rows_are_measured_by_the_training_rows() -> None:
    preprocessing = learned()
    new = pd.DataFrame({"extra": ["x", "y"], "kind": ["z", "b"], "flag": [True, False], "age": [np.nan, 1000.0]})
    together = inputs_of(preprocessing, pd.concat([TRAIN[["age", "kind", "flag"]], new[["age", "kind", "flag"]]]))
    torch.testing.assert_close(inputs_of(preprocessing, new), together[6:])
    torch.testing.assert_close(inputs_of(preprocessing, TRAIN), together[:6])
    raw = preprocessing.open(TableRows(new))
    assert raw.tolist() == [[50.0, 0, 0, 0, 1], [1000.0, 0, 1, 0, 0]]  # the median; a kind that is no known one
    said = preprocessing.describe_rows(TableRows(new), "new.csv")
    assert "Missing values of new.csv were filled" in said[0]
    assert said[1] == "Categories of new.csv that no training row has were ignored: kind (1)."


def test_single_precision_is_not_spent_on_a_far_mean() -> None:
    seconds = 1.7e9 + np.arange(8.0)
    preprocessing = learned(pd.DataFrame({"time": seconds}))
    raw = preprocessing.open(TableRows(pd.DataFrame({"time": seconds})))
    assert raw.dtype == torch.float64
    expected = (np.arange(8.0) - 3.5) / np.arange(8.0).std()
    np.testing.assert_allclose(preprocessing.to_inputs(raw)[:, 0], expected, rtol=1e-6)
    assert learned().open(TableRows(TRAIN)).dtype == torch.float32


def test_comes_back_from_its_description() -> None:
    preprocessing = learned()
    config = json.loads(json.dumps(preprocessing.config()))
    again = TablePreprocessing.from_config(config)
    assert again.config() == preprocessing.config()
    assert torch.equal(inputs_of(again, TRAIN), inputs_of(preprocessing, TRAIN))
    encoder = MLP(preprocessing.width, preprocessing=preprocessing)
    twin = encoder_from_config(json.loads(json.dumps(encoder.config())))
    assert twin.preprocessing.config() == preprocessing.config()
    with pytest.raises(ValueError, match=r"'mean' should have shape \(5,\), but has shape \(4,\)"):
        TablePreprocessing.from_config({**config, "mean": config["mean"][1:]})


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (TRAIN.drop(columns="age"), r"lack age. Columns found: kind, flag, constant. Rename or add them"),
        (TRAIN.assign(age="old"), r"Column 'age' should hold numbers, but holds 'old'"),
        (TRAIN.assign(age=np.inf), r"Column 'age' should hold finite numbers, but 6 are infinite"),
    ],
)
def test_tables_that_do_not_fit(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learned().open(TableRows(frame))


def test_rows_of_another_kind() -> None:
    preprocessing = learned()
    with pytest.raises(ValueError, match=r"takes rows of a table, but these are Texts"):
        preprocessing.open(Texts(["a"]))
    with pytest.raises(ValueError, match=r"takes rows of 5 numbers, but these have shape \(4,\)"):
        preprocessing.open(torch.zeros(2, 4))
    numbers = torch.tensor([[50.0, 1, 0, 0, 1]])
    assert torch.equal(preprocessing.open(numbers), numbers)
    with pytest.raises(ValueError, match=r"but these rows are rows of a table. Use an encoder for them: mlp"):
        TensorPreprocessing((4,)).open(TableRows(TRAIN))


def test_wide_tables_and_mixed_ones_agree() -> None:
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(9, 30)).astype(np.float32), columns=[f"x{k}" for k in range(30)])
    wide = wide.mask(rng.random(wide.shape) < 0.2)
    preprocessing = learned(wide)
    mixed = wide.assign(x3=wide["x3"].astype(object))  # goes the way of columns that are no plain numbers
    torch.testing.assert_close(inputs_of(preprocessing, wide), inputs_of(preprocessing, mixed))
    with pytest.raises(ValueError, match=r"Column 'x7' should hold finite numbers, but 9 are infinite"):
        preprocessing.open(TableRows(wide.assign(x7=np.inf)))


def test_encoder_learns_from_the_rows_that_it_is_given() -> None:
    def split(*rows: int) -> Split:
        return Split(TableRows(TRAIN).rows(torch.tensor(rows)), torch.zeros(len(rows), dtype=torch.long))

    data = DomainDataset("t", 2, {"a": {"in": split(0, 1, 2), "out": split(3)}, "b": {"in": split(4, 5)}})
    assert data.training_recipe == "table"
    encoder = build_encoder(None, data, [data.split("a", "in")])
    assert isinstance(encoder.preprocessing, TablePreprocessing)
    assert encoder.preprocessing.config() == learned(TRAIN[:3]).config()
    assert any("Categories of t that no training row has were ignored: kind (1)." in note for note in encoder.notes)
    everywhere = build_encoder("mlp", data)
    assert everywhere.preprocessing.config() == learned(TRAIN.iloc[[0, 1, 2, 4, 5]]).config()
    assert everywhere(everywhere.preprocessing.to_inputs(everywhere.preprocessing.open(split(0, 3).inputs))).shape == (
        2,
        256,
    )
    with pytest.raises(ValueError, match=r"should have rows to train on, but has none"):
        build_encoder(None, data, [])
    with pytest.raises(ValueError, match=r"'mnist-cnn' takes image files, .* but the rows are rows of a table"):
        build_encoder("mnist-cnn", data)
