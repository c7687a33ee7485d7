"""Tables with columns of all kinds, odd names and few rows, and the bytes of their files."""

import datetime
import decimal
import gzip
import io
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

odd_texts = st.one_of(
    st.sampled_from(["", " ", "NA", "None", "nan", "1,5", "=1+1", "-1", "a\x1b[31m", "\u202eb", "[red]", "a\nb", "é"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
"""Names and values that have caused trouble somewhere, and any others."""

_numbers = st.one_of(
    st.floats(-10, 10), st.sampled_from([0.0, -0.0, 1e-300, 1e300, np.nan, np.inf, 2.0**53, 5e-324]), st.integers(-3, 3)
)
_objects = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**30, decimal.Decimal("1.5"), datetime.date(2024, 1, 1), b"bytes", [1, 2], {"a": 1}]),
    odd_texts,
)
_kinds = (
    "number",
    "whole",
    "flag",
    "text",
    "few",
    "string",
    "Int64",
    "boolean",
    "category",
    "date",
    "objects",
    "single",
)


@st.composite
def columns(draw: st.DrawFn, rows: int, kind: str) -> Any:
    """A column of a kind, often with missing values."""

    def many(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    match kind:
        case "number":
            return np.array(many(_numbers), dtype=np.float64)
        case "single":
            return np.array(many(st.floats(-10, 10, width=32)), dtype=np.float32)
        case "whole":
            return np.array(many(st.integers(-(2**63), 2**63 - 1)), dtype=np.int64)
        case "flag":
            return np.array(many(st.booleans()))
        case "text":
            return pd.Series(many(st.none() | odd_texts), dtype=object)
        case "few":
            return pd.Series(many(st.sampled_from(["a", "b", "A "])), dtype=object)
        case "string":
            return pd.array(many(st.none() | odd_texts), dtype="string")
        case "Int64":
            return pd.array(many(st.none() | st.integers(0, 3)), dtype="Int64")
        case "boolean":
            return pd.array(many(st.none() | st.booleans()), dtype="boolean")
        case "category":
            return pd.Categorical(many(st.none() | st.sampled_from(["u", "v", ""])))
        case "date":
            dates = st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2262, 1, 1))  # in nanoseconds
            return pd.to_datetime(many(st.none() | dates))  # type: ignore[arg-type]
    return pd.Series(many(_objects), dtype=object)


@st.composite
def good_frames(draw: st.DrawFn) -> pd.DataFrame:
    """A data frame with the columns `y` and `domain`, and one to three more."""
    rows, many = 24, st.sampled_from(["single", "few", "flag"])
    found = {name: draw(columns(rows, draw(many))) for name in draw(st.sets(st.sampled_from("xzv"), min_size=1))}
    labels = np.random.default_rng(draw(st.integers(0, 99))).permutation(rows)
    return pd.DataFrame(found | {"y": np.array([*"ab"])[labels % 2], "domain": np.array([*"stu"])[labels % 3]})


@st.composite
def odd_frames(draw: st.DrawFn) -> pd.DataFrame:
    """A data frame that often has the columns `y` and `domain`, and columns of all kinds."""
    rows = draw(st.sampled_from([0, 1, 2, 4, 9, 24]))
    names = draw(st.lists(st.sampled_from(["x", "X", "z", "file", "group", "split"]) | odd_texts, max_size=4))
    found = {name: draw(columns(rows, draw(st.sampled_from(_kinds)))) for name in names}
    few = st.lists(st.sampled_from(["s", "t", "u"]), min_size=rows, max_size=rows)
    for name in ("y", "domain"):
        if draw(st.integers(0, 9)):
            found[name] = draw(st.one_of(few, columns(rows, draw(st.sampled_from(_kinds)))))
    return pd.DataFrame(found, index=range(rows))


frames = good_frames() | odd_frames()


@st.composite
def table_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Name and content of a table's file: whole, cut, with some bytes changed, or no table at all."""
    if draw(st.booleans()):
        return "t.csv", draw(good_frames()).to_csv(index=False).encode()
    name = draw(st.sampled_from(["t.csv", "t.csv.gz", "t.parquet", "t.npz"]))
    content = _content(draw, name)
    match draw(st.sampled_from(["whole", "cut", "changed", "noise"])):
        case "cut":
            return name, content[: draw(st.integers(0, len(content)))]
        case "changed":
            changed = bytearray(content)
            for at in draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=4)):
                if content:
                    changed[at] ^= draw(st.integers(1, 255))
            return name, bytes(changed)
        case "noise":
            return name, draw(st.binary(max_size=200))
    return name, content


def _content(draw: st.DrawFn, name: str) -> bytes:
    frame, file = draw(frames), io.BytesIO()
    if name == "t.npz":
        arrays = {
            "X": draw(st.sampled_from([np.ones((len(frame), 2)), np.ones(len(frame)), np.ones((1, 2)), np.array("x")])),
            **{str(column): frame[column].to_numpy() for column in frame.columns if str(column) in ("y", "domain")},
        }
        np.savez(file, allow_pickle=True, **arrays)  # type: ignore[arg-type]
        return file.getvalue()
    if name == "t.parquet":
        try:
            frame.to_parquet(file)
        except Exception:  # a column of mixed values
            frame.astype(str).to_parquet(file)
        return file.getvalue()
    separator = draw(st.sampled_from([",", ",", ",", ";", "\t"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    text = frame.to_csv(index=False, sep=separator).encode(encoding, "replace")
    return gzip.compress(text, mtime=0) if name.endswith(".gz") else text
