import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from momentalign.tables._columns import encode_rows, learn_columns

TRAIN = pd.DataFrame(
    {
        "age": [50.0, np.nan, 60.0, 70.0, 10.0],
        "count": [1, 2, 3, 4, 9],
        "kind": ["a", None, "b", "a", "c"],
        "flag": [True, False, True, True, False],
        "nothing": [np.nan] * 5,
        "one": ["x"] * 5,
        "seven": [7.0, 7.0, np.nan, 7.0, 7.0],
    }
)
NEW = pd.DataFrame(
    {
        "kind": ["b", "z", None],
        "age": [np.nan, 1.0, 2.0],
        "count": [0, 0, 5],
        "flag": [False, True, True],
        "extra": [1, 2, 3],
    }
)


def test_numbers_are_those_of_scikit_learns_pipeline() -> None:
    columns, notes = learn_columns(TRAIN)
    assert [column.name for column in columns] == ["age", "count", "kind", "flag"]
    encoder = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    names = ["age", "count", "flag"]
    theirs = make_column_transformer((SimpleImputer(strategy="median"), ["age"]), (encoder, ["kind"]))
    theirs.fit(TRAIN.assign(kind=TRAIN["kind"].astype(object).fillna(np.nan)))
    expected = theirs.transform(NEW.assign(kind=NEW["kind"].astype(object).fillna(np.nan)))
    ours = encode_rows(NEW, columns)
    np.testing.assert_array_equal(ours.matrix[:, 0], expected[:, 0])
    np.testing.assert_array_equal(ours.matrix[:, 2:6], expected[:, 1:])
    np.testing.assert_array_equal(ours.matrix[:, [1, 6]], NEW[names[1:]].to_numpy(float))
    assert ours.missing == {"age": 1, "kind": 1}
    assert ours.unseen == {"kind": 1}
    said = " ".join(ours.describe("new rows"))
    assert "Missing values of new rows were filled" in said
    assert "Categories of new rows that no training row has were ignored: kind (1)." in said
    assert len(ours.describe("new rows", missing=False)) == 1
    joined = " ".join(notes)
    assert "without any value in the training rows were dropped: nothing" in joined
    assert "one value in all training rows were dropped: one, seven" in joined
    assert "Categorical columns, one 0/1 column a category: kind" in joined


def test_whole_numbers_that_are_different_in_each_row_are_mentioned() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "patient": rng.permutation(40),
            "age": np.arange(40) // 2,
            "weight": rng.normal(size=40),
            "counted": [*range(39), np.nan],
        }
    )
    columns, notes = learn_columns(frame)
    assert [column.name for column in columns] == ["patient", "age", "weight", "counted"]
    (note,) = notes
    assert note.endswith("remove identifiers and row numbers: patient.")
    assert not learn_columns(frame.iloc[:20])[1]


def test_a_column_of_names_is_left_out() -> None:
    frame = pd.DataFrame({"id": [f"patient {k}" for k in range(60)], "x": np.arange(60.0)})
    columns, notes = learn_columns(frame)
    assert [column.name for column in columns] == ["x"]
    assert notes == ["Text columns with a different value in most rows were dropped: id."]


def test_a_column_with_few_rows_a_value_is_named() -> None:
    frame = pd.DataFrame({"date": [f"day {k % 51}" for k in range(500)], "kind": ["a", "b"] * 250})
    assert any(
        "few rows each, which make a model slower and worse: date (51)." in note for note in learn_columns(frame)[1]
    )
    assert not any("date" in note for note in learn_columns(frame[frame["date"] != "day 50"])[1] if "few rows" in note)


def test_categories_survive_another_type() -> None:
    columns, _ = learn_columns(pd.DataFrame({"code": ["1", "2", "x"]}))
    np.testing.assert_array_equal(
        encode_rows(pd.DataFrame({"code": [2.0, 1.0]}), columns).matrix, [[0, 1, 0], [1, 0, 0]]
    )
    numbers, _ = learn_columns(pd.DataFrame({"code": [1, 2]}))
    np.testing.assert_array_equal(encode_rows(pd.DataFrame({"code": ["2", None]}), numbers).matrix, [[2], [1.5]])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (NEW.drop(columns=["age", "kind"]), "but lack age, kind"),
        (NEW.assign(age=["1", "old", "2"]), "Column 'age' should hold numbers, but holds 'old'"),
        (NEW.assign(age=[1.0, np.inf, 2.0]), "Column 'age' should hold finite numbers, but 1 are infinite"),
    ],
)
def test_new_rows_that_do_not_fit(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_rows(frame, learn_columns(TRAIN)[0])


def test_nothing_left() -> None:
    with pytest.raises(ValueError, match="No column of the training rows can be used"):
        learn_columns(TRAIN[["nothing", "one"]])


def test_a_few_words_in_a_column_of_numbers_are_named() -> None:
    frame = pd.DataFrame({"a": [*map(str, range(40)), "unknown"], "b": ["x", "y"] * 20 + ["x"]})
    _, notes = learn_columns(frame)
    assert notes[0] == (
        "Column 'a' holds numbers except in 1 row (for instance 'unknown'), and was taken as text. Leave those fields "
        "empty to have numbers."
    )
    assert not any("'b'" in note for note in notes)
