import csv
import io

import pandas as pd
import pytest

from momentalign._csv import csv_cell, csv_text, frame_csv, plain_cell

FORMULAS = ("=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "'=1", "''@x", "-a")
PLAIN = ("", "a=b", "-1", "+90%", "-90%", "-1.5e-05", "-,5", "-inf", "'a", "'-1", "5-3", " =1", "–")


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_looks_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert csv_cell(text) == f"'{text}"
    assert plain_cell(csv_cell(text)) == text


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_is_left_alone(text: str) -> None:
    assert csv_cell(text) == text == plain_cell(text)


def test_numbers_are_left_alone() -> None:
    rows = [["n", "m"], [-1, -1.5], [None, float("nan")], [True, 0.1]]
    assert csv_text(rows) == "n,m\n-1,-1.5\n,\nTrue,0.1\n"


def test_frames_are_cleaned_in_names_index_and_text_columns() -> None:
    frame = pd.DataFrame({"=a": [-1.0, 2.0], "b": ["=x", None], "c": pd.Categorical(["@y", "z"])}, index=["+i", "j"])
    frame.index.name = "-k"
    rows = list(csv.reader(io.StringIO(frame_csv(frame, index=True))))
    assert rows == [["'-k", "'=a", "b", "c"], ["'+i", "-1.0", "'=x", "'@y"], ["j", "2.0", "", "z"]]
    assert frame.columns[0] == "=a"
    assert frame["b"].iloc[0] == "=x"
    assert frame_csv(frame[["b"]]) == 'b\n\'=x\n""\n'


def test_line_ends_in_names_are_quoted() -> None:
    for text in ("a\rb", "a\nb", "a\r\nb", "a\r\n"):
        assert csv_text([["x", text]]) == f'x,"{text}"\n' == frame_csv(pd.DataFrame(columns=["x", text]))


def test_columns_of_one_name() -> None:
    frame = pd.DataFrame([["=a", 1]], columns=["x", "x"])
    assert frame_csv(frame) == "x,x\n'=a,1\n"
