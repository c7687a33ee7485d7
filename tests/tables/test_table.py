import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from momentalign.tables import read_table


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [50.0, np.nan, 60.0, 70.0],
            "kind": ["a", None, "b", "a"],
            "nothing": [np.nan] * 4,
            "one": [1, 1, 1, 1],
            "y": ["ill", "well", "ill", None],
            "site": ["Bern", "Bern", "Basel", "Basel"],
        }
    )


def write(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_files_of_every_kind_give_the_same_table(frame: pd.DataFrame, name: str, tmp_path: Path) -> None:
    table = read_table(write(frame, tmp_path / name), target="y", domain="site")
    assert list(table.features.columns) == ["age", "kind", "nothing", "one"]
    assert list(table.target) == ["ill", "well", "ill"]
    assert list(table.domains) == ["Bern", "Bern", "Basel"]
    assert table.notes == ("1 row without 'y' or 'site' dropped.",)


def test_npz_takes_the_names_of_the_domains(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, X=np.eye(3, dtype=np.float16), y=[0, 1, 1], domain=[1, 0, 1], domains=np.array(["art", "photo"]))
    table = read_table(path)
    assert list(table.domains) == ["photo", "art", "photo"]
    assert table.features.shape == (3, 3)


def test_words_that_may_be_names_are_missing_values_only_among_features_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y,domain\nNA,None,NA\n1,some,EU\n2,,EU\n3,None,\n4,some,NA\n")
    table = read_table(path)
    assert list(table.target) == ["None", "some", "some"]
    assert list(table.domains) == ["NA", "EU", "NA"]
    assert table.features["x"].isna().tolist() == [True, False, False]
    said = " ".join(table.notes)
    assert "'None' in column 'y' was taken as a name; only an empty field counts as missing." in said
    assert "'NA' in column 'domain'" in said
    assert "2 rows without 'y' or 'domain' dropped." in said
    path.write_text("x,y,domain\n1,0,a\n2,NA,a\n3,1,b\n")  # a number that is not known
    assert list(read_table(path).target) == [0, 1]
    path.write_text("x,y,domain,split\n1,no,a,train\n2,NA,a,train\n3,yes,b,val\n3,yes,b,NA\n")  # as R writes them
    assert list(read_table(path).target) == ["no", "yes"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "z", "domain": "site"}, "should have a column 'z' (target), but has none. Name the right one with"),
        ({"target": "z", "domain": "site"}, "--target. Found: age, kind"),
        ({"target": "y", "domain": "sites"}, "Did you mean 'site'?"),
        ({"target": "y", "domain": "y"}, "should be two columns, but are both 'y'"),
        ({"target": "nothing", "domain": "site"}, "should have rows with 'nothing' and 'site', but has none"),
    ],
)
def test_missing_columns(frame: pd.DataFrame, options: dict[str, str], message: str, tmp_path: Path) -> None:
    path = write(frame, tmp_path / "t.csv")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_table(path, **options)


@pytest.mark.parametrize(
    "header", ["\n\ny,domain,x", '"y",domain,x', "\ufeffy,domain,x", 'y,domain,"a\nb"', ",y,domain"]
)
def test_headers(header: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\n0,1,2\n3,4,5\n", encoding="utf-8")
    assert len(read_table(tmp_path / "t.csv").target) == 2


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.csv does not exist"):
        read_table(tmp_path / "gone.csv")
    (tmp_path / "t.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"t\.xlsx should be a \.csv, .* or \.npz file"):
        read_table(tmp_path / "t.xlsx")
    for name in ("t.csv", "t.parquet", "t.npz"):
        (tmp_path / name).write_text("")
        with pytest.raises(ValueError, match="could not be read"):
            read_table(tmp_path / name)
    (tmp_path / "only.csv").write_text("y,domain\n1,a\n")
    with pytest.raises(ValueError, match="should have columns besides 'y' and 'domain'"):
        read_table(tmp_path / "only.csv")
    np.savez(tmp_path / "t.npz", y=[1])
    with pytest.raises(ValueError, match="should have a matrix 'X', but has y"):
        read_table(tmp_path / "t.npz")
    np.savez(tmp_path / "s.npz", X=np.eye(2), y=[1], domain=[0, 1])
    with pytest.raises(ValueError, match=r"one entry per row of 'X' \(2\), but has shape \(1,\)"):
        read_table(tmp_path / "s.npz")


def test_groups_splits_and_files_are_no_features(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame = frame.assign(y="ill", split=[0.0, 1.0, None, 2.0], group=["g", "h", "g", "h"], file="a.jpg")
    table = read_table(write(frame, tmp_path / "t.csv"), domain="site")
    assert list(table.features.columns) == ["age", "kind", "nothing", "one"]
    assert table.splits is not None
    assert list(table.splits) == ["train", "val", "test"]
    assert table.groups is not None
    assert list(table.groups) == ["g", "h", "h"]
    assert "Column 'split' was taken as the rows' splits, not as a feature." in table.notes
    assert "1 row without 'y' or 'site' or 'group' or 'split' dropped." in table.notes
    named = read_table(tmp_path / "t.csv", target="group", domain="site", group="kind")
    assert named.groups is not None
    assert list(named.groups) == ["a", "a"]


def test_splits_that_are_none(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = write(frame, tmp_path / "t.csv")
    with pytest.raises(ValueError, match=r"'split' should be a column of train, val and test, .* but 'kind' holds 'a'"):
        read_table(path, domain="site", split="kind")
    with pytest.raises(ValueError, match="'target' and 'group' should be two columns, but are both 'y'"):
        read_table(path, domain="site", group="y")


def test_names_of_indices_come_from_the_file(tmp_path: Path) -> None:
    names = {"classes": np.array(["dark", "blond"]), "group_names": np.array(["u", "v"])}
    np.savez(
        tmp_path / "t.npz",
        X=np.eye(2, dtype=np.float16),
        y=[1, 0],
        domain=["a", "b"],
        group=[0, 1],
        other=[1, 2],
        **names,
    )
    table = read_table(tmp_path / "t.npz")
    assert list(table.target) == ["blond", "dark"]
    assert table.names["target"] == ("dark", "blond")
    assert table.groups is not None
    assert list(table.groups) == ["u", "v"]
    assert list(table.features.columns) == ["x0", "x1"]
    assert table.features.dtypes.iloc[0] == np.float32


def test_broken_archives(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.eye(2), y=np.array([None, 1], dtype=object), domain=[0, 1])
    with pytest.raises(ValueError, match=r"t\.npz could not be read"):
        read_table(tmp_path / "t.npz")
    (tmp_path / "t.csv.gz").write_bytes(b"\x1f\x8b\x08\x00torn")
    with pytest.raises(ValueError, match=r"t\.csv\.gz could not be read"):
        read_table(tmp_path / "t.csv.gz")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match=r"folder\.csv should be a \.csv"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "should have a line of column names and rows below, but is empty. Save the table again."),
        (b"\n\r\n", "but is empty"),
        (
            "x,y,domain\n1,0,a\n".encode("utf-16"),
            "t.csv could not be read: it should be text in UTF-8, but is in UTF-16. Use --encoding utf-16.",
        ),
        ("x,y,domain\n1,0,Z\u00fcrich\n".encode("latin-1"), "Save it as CSV in UTF-8, or name its encoding"),
        (
            b"a;b;y;domain\n1;2;0;a\n",
            "separated by commas, but are separated by semicolons: 'a;b;y;domain'. Use --sep ';'.",
        ),
        (b"a;y;domain\n1,5;0;a\n2,5;1,5;b\n", "separated by commas, but are separated by semicolons"),
        (b"a\ty\tdomain\n1\t0\ta\n", "separated by commas, but are separated by tabs"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_files_of_text_that_cannot_be_read_as_they_are(content: bytes, message: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    with pytest.raises(ValueError, match=re.escape(message.replace("t.csv", name))) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_separators_may_stand_in_names_and_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeffa;b,y,domain\n1,p;q,a\n2,r|s,b\n", encoding="utf-8")
    assert list(read_table(tmp_path / "t.csv").features.columns) == ["a;b"]


@pytest.mark.parametrize("name", ["X", "y", "domain", "classes"])
def test_objects_in_an_npz_file(name: str, tmp_path: Path) -> None:
    arrays = {"X": np.eye(2), "y": np.array([0, 1]), "domain": np.array(["a", "b"]), "classes": np.array(["no", "yes"])}
    np.savez(tmp_path / "t.npz", **{**arrays, name: arrays[name].astype(object)})
    with pytest.raises(ValueError, match=r"t\.npz could not be read: Object arrays"):
        read_table(tmp_path / "t.npz")


def test_columns_of_the_same_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a,"y",domain,y\n1,0,x,1\n')
    with pytest.raises(ValueError, match=r"t.csv could not be read: .* different names, but 'y' occurs twice"):
        read_table(tmp_path / "t.csv")


def test_all_missing_columns_are_named_at_once(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = write(frame.rename(columns={"y": "label"}), tmp_path / "t.csv")
    with pytest.raises(
        ValueError, match=r"columns 'y' \(target\) and 'domain' \(domain\), .* with --target and --domain"
    ):
        read_table(path)


def test_many_domains_are_not_all_listed(tmp_path: Path) -> None:
    pd.DataFrame({"x": range(100), "y": [0, 1] * 50, "domain": range(100)}).to_csv(tmp_path / "t.csv", index=False)
    assert read_table(tmp_path / "t.csv").describe("2 classes")[1].endswith("and 70 more.")
