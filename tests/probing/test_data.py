import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from momentalign.probing import ProbeData, find_method
from tests.probing.problems import spurious_data, write_csv

X = np.arange(12.0).reshape(6, 2)
Y = ["b", "a", "b", "a", "b", "a"]
E = [10, 9, 9, 10, 9, 10]
S = ["train", "train", "train", "train", "val", "test"]


def test_groups_are_the_pairs_of_class_and_domain_unless_given() -> None:
    data = ProbeData.from_arrays(X, Y, E, S)
    assert data.classes == ("a", "b")
    assert data.domain_names == ("9", "10")
    assert data.group_names == ("a, 9", "a, 10", "b, 9", "b, 10")
    assert [data.group_names[g] for g in data.groups] == ["b, 10", "a, 9", "b, 9", "a, 10", "b, 9", "a, 10"]
    given = ProbeData.from_arrays(X, Y, E, [0, 0, 0, 0, 1, 2], groups=list("uvwuvw"))
    assert given.group_names == ("u", "v", "w")
    assert given.rows("test").tolist() == [5]


def test_a_file_gives_what_arrays_give(tmp_path: Path) -> None:
    data = spurious_data(60, 30)
    read = ProbeData.from_file(write_csv(data, tmp_path / "features.csv"))
    np.testing.assert_allclose(read.features, data.features)
    for name in ("targets", "domains", "groups", "splits"):
        np.testing.assert_array_equal(getattr(read, name), getattr(data, name))
    assert read.group_names == data.group_names
    assert any("'group' was taken as the rows' groups" in note for note in read.notes)


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_classes_keep_the_order_of_the_file(suffix: str, tmp_path: Path) -> None:
    # Names that do not sort as their indices do, as in CelebA.
    names = {"classes": ["dark", "blond"], "domains": ["male", "female"], "group_names": ["z", "y", "x", "w"]}
    y, e, g = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 0, 1, 1, 0, 1]), np.array([0, 2, 1, 3, 0, 3])
    path = tmp_path / f"features{suffix}"
    columns = {"y": y, "domain": e, "group": g, "split": np.array(S)}
    if suffix == ".npz":
        np.savez(path, X=X.astype(np.float16), **columns, **{key: np.array(value) for key, value in names.items()})
    else:
        table = {f"x{k}": X[:, k] for k in range(2)} | columns | {"domain": np.array(names["domains"])[e]}
        table["file"] = np.array([f"{k}.jpg" for k in range(6)])
        metadata = {"momentalign": json.dumps({"plan": {}, **names})}
        pq.write_table(pa.table(table).replace_schema_metadata(metadata), path)
    data = ProbeData.from_file(path)
    assert data.classes == ("dark", "blond")
    assert data.domain_names == ("male", "female")
    assert data.group_names == ("z", "y", "x", "w")
    np.testing.assert_array_equal(data.targets, y)
    np.testing.assert_array_equal(data.domains, e)
    np.testing.assert_array_equal(data.groups, g)
    np.testing.assert_allclose(data.features, X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"splits": ["train"] * 5 + ["test"]}, "none of 'val'"),
        ({"splits": ["train"] * 5 + ["rest"]}, "but hold 'rest'"),
        ({"domains": [1] * 4 + [2, 2]}, "at least two domains, but all are of '1'"),
        ({"targets": ["a"] * 4 + ["b", "b"]}, "at least two classes, but all are of 'a'"),
        ({"targets": ["a"]}, r"'targets' should have one entry per row of 'features' \(6\), but has shape \(1,\)"),
        ({"features": np.where(X == 5, np.nan, X)}, "1 rows have missing or infinite values, first row 2"),
        ({"domains": np.array(["a", None, "b", "a", "b", "a"], dtype=object)}, "'domains'.* 1 are missing"),
        ({"groups": [0.0, np.nan, 1, 0, 1, 0]}, "'groups'.* 1 are missing"),
        ({"groups": ["dog, snow", "dog,  snow", *["cat"] * 4]}, "'groups'.*'dog, snow'"),
        ({"features": X[0]}, r"of shape \(n, d\)"),
        ({"features": X.astype(str)}, "should be numbers"),
    ],
)
def test_arrays_that_do_not_do(change: dict[str, object], message: str) -> None:
    arrays = {"features": X, "targets": Y, "domains": E, "splits": S} | change
    with pytest.raises(ValueError, match=message):
        ProbeData.from_arrays(**arrays)  # type: ignore[arg-type]


def test_text_in_the_features_of_a_file(tmp_path: Path) -> None:
    frame = pd.DataFrame({"kind": ["u"] * 6, "y": Y, "domain": E, "split": S})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"The columns of t\.csv should be numbers, but 'kind' is not"):
        ProbeData.from_file(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("given", "kept"), [(np.float32, np.float32), (np.float64, np.float64), (np.float16, np.float64), (int, np.float64)]
)
def test_single_precision_is_kept(given: type, kept: type, tmp_path: Path) -> None:
    assert ProbeData.from_arrays(X.astype(given), Y, E, S).features.dtype == kept
    if given is not np.float16:
        columns = {f"x{k}": X[:, k].astype(given) for k in range(2)}
        pq.write_table(pa.table({**columns, "y": Y, "domain": E, "split": S}), tmp_path / "t.parquet")
        assert ProbeData.from_file(tmp_path / "t.parquet").features.dtype == kept


def test_rows_of_groups_are_counted_by_split() -> None:
    data = ProbeData.from_arrays(X, Y, E, S)
    assert data.count_groups("train") == {"a, 9": 1, "a, 10": 1, "b, 9": 1, "b, 10": 1}
    assert data.count_groups("test") == {"a, 10": 1}
    with pytest.raises(ValueError, match=r"'subsampled' needs 2 rows .* in 'train', but 'a, 9' of arrays has 1"):
        find_method("subsampled").check_groups(data)
