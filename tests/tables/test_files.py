"""Files that are damaged, odd or meant to do harm: one sentence, and no other kind of error."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from momentalign._table_spec import table_spec
from momentalign.tables import fit_encoder, read_table

ROWS = {"x": [1.0, 2.0, 3.0, 4.0], "y": ["a", "b", "a", "b"], "domain": ["s", "s", "t", "t"]}


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def parquet(metadata: dict[bytes, bytes], table: pa.Table | None = None) -> bytes:
    file = io.BytesIO()
    table = pa.table(ROWS) if table is None else table
    pq.write_table(table.replace_schema_metadata(metadata), file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"\n\r\n  \n", "is empty"),
        ("t.csv", "x,y,domain\n1,a,s\n".encode("utf-16-le"), "should be text in UTF-8"),
        ("t.csv", "x,y,domain\n1,a,s\n".encode("utf-16"), r"is in UTF-16\. Use --encoding utf-16\."),
        ("t.csv.gz", gzip.compress("x,y,domain\n1,a,s\n".encode("utf-16"), mtime=0), "Use --encoding utf-16"),
        ("t.csv", "x,y,domain\n1,é,s\n".encode("latin-1"), "should be text in UTF-8"),
        ("t.csv", b"x,y,domain\n1,a,s,4\n2,b,t,5\n", "as many values as there are column names, but have more"),
        ("t.csv", b"x,y,domain\n1,a,s\n2,b,t,5\n", "line 3 should have 3 values like those above, but has 4"),
        ("t.csv", b"x,x,y,domain\n1,2,a,s\n", "'x' occurs twice"),
        ("t.csv", b"x;y;domain\n1,5;a;s\n", "separated by semicolons"),
        ("t.csv", b"x,y,domain\n", "should have rows"),
        ("t.csv", b'x,y,domain\n1,"a,s\n', "EOF inside string"),
        ("t.csv.gz", gzip.compress(b"x,y,domain\n1,a,s\n" * 99, mtime=0)[:-12], "could not be read"),
        ("t.csv.gz", b"x,y,domain\n1,a,s\n", "could not be read"),
        ("t.npz", b"not a zip", "not an npz archive"),
        ("t.npz", npz(X=np.array([[{}, 1]], dtype=object)), "Object arrays"),
        ("t.npz", npz(X=np.array([["a", "b"]])), "should hold numbers"),
        ("t.npz", npz(X=np.ones((2, 2), dtype=complex)), "should hold numbers"),
        ("t.npz", npz(X=np.ones((2, 2)), y=np.array([{}, 1], dtype=object)), "Object arrays"),
        ("t.npz", npz(X=np.ones((2, 2)), y=np.ones(3), domain=np.ones(2)), "one entry per row"),
        ("t.npz", npz(a=np.ones(2)), "should have a matrix 'X'"),
        ("t.npz", npz(X=np.ones((2, 2)))[:-30], "t.npz"),
        ("t.npz", npz(X=np.ones((2, 2))).replace(b"PK\1\2", b"PK\0\0"), "central directory"),
        ("t.parquet", b"PAR1 and no more", "could not be read"),
        ("t.parquet", parquet({b"momentalign": b"5"}), "metadata 'momentalign'"),
        ("t.parquet", parquet({b"momentalign": b"{"}), "metadata 'momentalign'"),
        ("t.parquet", parquet({b"momentalign": b"\xff\xfe"}), "metadata 'momentalign'"),
        ("t.parquet", parquet({b"momentalign": json.dumps({"classes": 5}).encode()}), "list of names as 'classes'"),
        ("t.parquet", parquet({b"momentalign": json.dumps({"domains": [5]}).encode()}), "list of names as 'domains'"),
        ("t.parquet", parquet({b"pandas": b'{"columns": 5}'}), "could not be read"),
        ("t.parquet", parquet({}, pa.table([[1], [2]], names=["x", "x"])), "'x' occurs twice"),
    ],
)
def test_damaged_and_odd_files_are_one_sentence(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        read_table(tmp_path / name)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(name)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(ValueError, match=r"^t\.csv should be a \.csv, .* or \.npz file, but is a folder\.$"):
        read_table(tmp_path / "t.csv")


def test_a_named_index_is_a_column(tmp_path: Path) -> None:
    pd.DataFrame(ROWS).set_index("domain").to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").domains.tolist() == ROWS["domain"]


def _arrow_strings(values: list[str | None]) -> Any:
    return pd.array(values, dtype="string")


@pytest.mark.parametrize("make", [_arrow_strings, lambda values: np.array(values, dtype=object), pd.Categorical])
def test_columns_of_text_with_missing_values(make: Callable[[list[str | None]], Any], tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "x": np.arange(12.0),
            "kind": make(["u", None, "v"] * 4),
            "number": make(["1", None, "2.5"] * 4),
            "y": make([*"abababababa", None]),
            "domain": make([*"sssssttttt", None, "t"]),
        }
    )
    table.to_parquet(tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet")
    assert read.target.tolist() == [*"ababababab"]
    assert read.domains.tolist() == [*"sssssttttt"]
    encoder, rows, _ = fit_encoder(read.features)
    assert rows.missing["kind"] == 3
    again = encoder.encode(read.features)
    assert np.array_equal(again.matrix, rows.matrix)


@pytest.mark.parametrize("kind", ["string", "object"])
def test_numbers_as_text_with_missing_values(kind: str) -> None:
    numbers = fit_encoder(pd.DataFrame({"x": [1.0, 2.0, 4.0]}))[0]
    assert numbers.encode(pd.DataFrame({"x": pd.Series(["3", None], dtype=kind)})).matrix.tolist() == [[3.0], [2.0]]
    with pytest.raises(ValueError, match="Column 'x' should hold numbers, but holds 'a'"):
        numbers.encode(pd.DataFrame({"x": pd.Series([None, "a"], dtype=kind)}))


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (["1,5", "2", "3,25", "4"], "1,5"),
        (["2", "-1,5e3", None, "4"], "-1,5e3"),
        (["1,500", "2,500.5", "3", "4"], "1,500"),
        (["1.234,56", "12,50", "980", "1.000.000,1"], "1.234,56"),
        (["37.3", "37,3", "36.9", "38"], "37,3' and '37.3"),
    ],
)
def test_decimal_commas_are_noticed(column: list[str | None], found: str, tmp_path: Path) -> None:
    for name in ("x", "y"):
        pd.DataFrame({**ROWS, name: column}).to_csv(tmp_path / "t.csv", index=False)
        message = f"Column '{name}' should hold numbers with decimal points, but holds '{found}'"
        with pytest.raises(ValueError, match=message):
            fit_encoder(read_table(tmp_path / "t.csv").features)


SURVEY = """id;visit;temperature;batch;score;y;domain
1;06.12.2022;37,3;37.3;1,25;a;s
2;07.12.2022;36,9;36.9;2;b;s
3;31.01.2023;38;36.10;3,5;a;t
4;;36,6;40.1;;b;t
"""


def test_the_advice_on_decimal_commas_keeps_other_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("OLD.csv").write_text(SURVEY)
    with pytest.raises(ValueError, match="'temperature' should hold numbers") as error:
        fit_encoder(read_table("OLD.csv", sep=";").features)
    eval("pd." + str(error.value).partition("with pandas: ")[2].removesuffix("."))
    table = read_table("NEW.csv").features
    assert table["visit"].tolist()[:3] == ["06.12.2022", "07.12.2022", "31.01.2023"]
    assert table["temperature"].tolist() == [37.3, 36.9, 38, 36.6]
    assert table["batch"].tolist() == [37.3, 36.9, 36.1, 40.1]
    fit_encoder(table)


@pytest.mark.parametrize(
    "column",
    [
        ["37.3", "37,3", "36.9", "38"],  # both marks
        ["1.234,56", "12,50", "980", "7"],  # pandas needs `thousands` for these, which changes other columns
        ["1,500", "12,750", "980", "7"],  # thousands or decimals
        ["1,500,000", "12,5", "980", "7"],
    ],
)
def test_no_command_is_advised_that_changes_values(column: list[str], tmp_path: Path) -> None:
    pd.DataFrame({**ROWS, "x": column}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="'x' should hold numbers with decimal points") as error:
        fit_encoder(read_table(tmp_path / "t.csv").features)
    assert "read_csv" not in str(error.value)


@pytest.mark.parametrize("column", [["06.12.2022", "1,5", "2", "3"], ["1.23,5", "1,5", "2", "3"]])
def test_points_that_separate_no_thousands_are_text(column: list[str], tmp_path: Path) -> None:
    pd.DataFrame({**ROWS, "kind": column}).to_csv(tmp_path / "t.csv", index=False)
    fit_encoder(read_table(tmp_path / "t.csv").features)  # not refused as numbers with decimal commas


def test_text_with_commas_is_text(tmp_path: Path) -> None:
    pd.DataFrame({**ROWS, "kind": ["1,5", "a,b", "1,5", "a,b"]}).to_csv(tmp_path / "t.csv", index=False)
    encoder, _, _ = fit_encoder(read_table(tmp_path / "t.csv").features)
    assert encoder.columns[1].categories == ("1,5", "a,b")


def test_names_that_differ_by_spaces_or_case_are_reported(tmp_path: Path) -> None:
    rows = {**ROWS, "y": ["A", "a", "b", "b"], "domain": ["St  Gallen", "st gallen ", "t", "t"]}
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    assert read_table(tmp_path / "t.csv").notes == (
        "'A' and 'a' in column 'y' differ by spaces or case only, and count as different.",
        "'St  Gallen' and 'st gallen ' in column 'domain' differ by spaces or case only, and count as different.",
    )


def test_a_missing_column_names_the_last_ones_too(tmp_path: Path) -> None:
    frame = pd.DataFrame({**{f"x{k}": [1.0] for k in range(40)}, "Site": ["s"], "label": ["a"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"Found: x0, x1, .*more\), .*x39, Site, label\. Did you mean 'Site'\?"):
        read_table(tmp_path / "t.csv", target="label", domain="site")


@pytest.mark.parametrize(
    ("name", "sep", "encoding", "options"),
    [
        ("t.tsv", "\t", "utf-8", {}),
        ("t.tsv.gz", "\t", "utf-8", {}),
        ("T.CSV", ",", "utf-8", {}),
        ("t.csv", ";", "cp1252", {"sep": ";", "encoding": "cp1252"}),
        ("t.csv", "\t", "utf-16", {"sep": "tab", "encoding": "utf-16"}),
        ("t.tsv", "|", "utf-8-sig", {"sep": "|"}),
    ],
)
def test_separators_and_encodings(name: str, sep: str, encoding: str, options: dict[str, str], tmp_path: Path) -> None:
    frame = pd.DataFrame({**ROWS, "domain": ["Zürich", "Zürich", "NA", "Köln"]})
    frame.to_csv(tmp_path / name, index=False, sep=sep, encoding=encoding)
    for table in (read_table(tmp_path / name, **options), read_table(table_spec(tmp_path / name, **options))):
        assert table.domains.tolist() == ["Zürich", "Zürich", "NA", "Köln"]
        assert table.features.columns.tolist() == [column for column in ROWS if column not in ("y", "domain")]
        assert table.path == tmp_path / name


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("t.csv", b"x,y,domain\n1,a,s\n", {"sep": ";"}, "by semicolons, but are separated by commas.* Use --sep ','"),
        ("t.csv", b"x\ty\tdomain\n1\ta\ts\n", {}, "by commas, but are separated by tabs.* Use --sep tab"),
        ("t.csv", b"x,y,domain\n1,a,s\n", {"sep": ";;"}, "'--sep' should be one character"),
        ("t.csv", b"x,y,domain\n1,a,s\n", {"sep": '"'}, "'--sep' should be one character"),
        ("t.csv", b"x,y,domain\n1,a,s\n", {"encoding": "klingon"}, "'--encoding' should be one that Python knows"),
        ("t.csv", b"x,y,domain\n1,a,s\n", {"encoding": "base64"}, "'--encoding' should be one that Python knows"),
        ("t.csv", b"x,y,domain\n1,\xe9,s\n", {"encoding": "ascii"}, "should be text in ascii, but is not"),
        ("t.npz", b"", {"sep": ";"}, "'--sep' is for CSV files, but t.npz is none"),
        ("t.parquet", b"", {"encoding": "utf-8"}, "'--encoding' is for CSV files, but t.parquet is none"),
    ],
)
def test_wrong_separators_and_encodings(
    name: str, content: bytes, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / name, **options)
