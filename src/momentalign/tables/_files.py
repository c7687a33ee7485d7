"""Read CSV, parquet and npz files as data frames, with names for labels stored as indices."""

import csv
import gzip
import importlib
import itertools
import json
import reprlib
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._extras import require
from momentalign._format import join_ends, suggest

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz")
METADATA_KEY = "momentalign"
"""Key of a parquet file's metadata, and name of an npz file's array, that hold what `embed` stores as JSON."""

_LONGEST_HEADER = 1 << 26
_CHUNK = 1 << 20
_NOT_TEXT = "should be text in UTF-8, but is in another encoding, or not text. Save it as CSV in UTF-8."
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_frame(path: str | Path, columns: Iterable[str] = (), *, text_columns: Iterable[str] = ()) -> Any:
    """Read a file as a data frame.

    An npz file gives the columns `x0`, `x1`, … of its matrix `X`, and the arrays named by `columns`; other files are
    read whole. In a CSV file words such as NA and None count as missing values, except in a text column, where NA may
    be North America, and except None in the other named columns, where it may be a class.

    `columns` are those with a meaning (target, domain, …), if they exist, and `text_columns` those of them that hold
    names. The `attrs` of the frame hold, by column, the `"names"` that a parquet or npz file has for the column's
    indices, and the `"words"` of a CSV file's text columns that would count as missing values elsewhere.
    """
    pandas = require("pandas", "Tables need", extra="cli")
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if not path.name.endswith(TABLE_SUFFIXES) or not path.is_file():
        raise ValueError(f"{path.name} should be a {', '.join(TABLE_SUFFIXES[:-1])} or {TABLE_SUFFIXES[-1]} file.")
    try:
        if path.suffix == ".npz":
            return _npz_frame(pandas, path, columns)
        frame = (
            _parquet_frame(pandas, path)
            if path.suffix == ".parquet"
            else _csv_frame(pandas, path, columns, text_columns)
        )
    except ModuleNotFoundError:  # pyarrow
        raise
    except Exception as error:  # pandas, pyarrow, NumPy and zipfile raise all kinds of errors for damaged files
        if isinstance(error, UnicodeDecodeError) and path.suffix in (".csv", ".gz"):
            raise ValueError(f"{path.name} {_NOT_TEXT}") from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path.name} could not be read: {reason.removesuffix('.')}.") from None
    return frame


def read_parquet_metadata(path: Path) -> dict[str, Any]:
    """What `embed` stored in a parquet file: its plan, and the names of classes, domains and groups."""
    parquet = importlib.import_module("pyarrow.parquet")
    stored = (parquet.read_schema(path).metadata or {}).get(METADATA_KEY.encode())
    try:
        return dict(json.loads(stored)) if stored else {}
    except (ValueError, TypeError, RecursionError):
        raise ValueError(
            f"{path.name} should have a JSON object as its metadata '{METADATA_KEY}', but has something else. Write "
            "the file again."
        ) from None


class MissingColumnError(ValueError):
    """A table lacks the column `name`; `columns_note` lists those that exist."""

    def __init__(self, option: str, name: str, columns: Iterable[str], path: Path) -> None:
        existing = list(columns)
        self.name, self.columns_note = name, f"Found: {join_ends(existing)}." + suggest(name, existing)
        super().__init__(f"'{option}' should name a column of {path.name}, but is '{name}'. {self.columns_note}")


def _csv_frame(pandas: Any, path: Path, columns: Iterable[str], text_columns: Iterable[str]) -> Any:
    _check_header(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(path, index_col=False)
    except pandas.errors.ParserWarning:
        raise ValueError("its rows should have as many values as there are column names, but have more.") from None
    with_gaps = [
        name
        for name in dict.fromkeys(columns)
        if name in frame.columns and frame[name].dtype.kind == "O" and frame[name].hasnans
    ]
    words = dict[str, list[str]]()
    if with_gaps:
        raw = pandas.read_csv(path, usecols=with_gaps, dtype=str, keep_default_na=False)
        for name in with_gaps:
            missing = raw[name] == "" if name in text_columns else frame[name].isna() & (raw[name] != "None")
            values = raw[name].mask(missing)
            words[name] = sorted(values[frame[name].isna()].dropna().unique())
            frame[name] = values
    frame.attrs = {"words": {name: kept for name, kept in words.items() if kept}}
    return frame


def _check_header(path: Path) -> None:
    """Refuse what pandas would accept or explain poorly: no text, no columns, duplicate columns, other separators."""
    header = ""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for line in iter(lambda: file.readline(_LONGEST_HEADER), b""):
            if len(line) == _LONGEST_HEADER:
                raise ValueError("its first line should hold column names, but does not end. Save the table again.")
            if header := line.decode("utf-8-sig").strip("\r\n"):
                break
        for chunk in itertools.chain([header.encode()], iter(lambda: file.read(_CHUNK), b"")):
            if b"\0" in chunk:
                raise ValueError(f"it {_NOT_TEXT}")
    if not header.strip():
        raise ValueError("it should have a line of column names and rows below, but is empty. Save the table again.")
    _check_unique(next(csv.reader([header])))
    others = [name for separator, name in _OTHER_SEPARATORS.items() if separator in header]
    if others and "," not in header:
        shown = header if len(header) <= 60 else header[:60] + "…"
        raise ValueError(
            f"its columns should be separated by commas, but are separated by {others[0]}: {shown!r}. Save it with "
            "commas."
        )


def _parquet_frame(pandas: Any, path: Path) -> Any:
    _check_unique(importlib.import_module("pyarrow.parquet").read_schema(path).names)
    frame = pandas.read_parquet(path)
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame.columns = [str(column) for column in frame.columns]
    _check_unique(frame.columns)
    names = read_parquet_metadata(path)
    frame.attrs = {"names": {column: _texts(names[key], key) for column, key in _NAMES.items() if names.get(key)}}
    return frame


def _texts(names: Any, key: str) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"its metadata should have a list of names as '{key}', but has {reprlib.repr(names)}.")
    return names


def _check_unique(names: Iterable[str]) -> None:
    if duplicates := [name for name, times in Counter(names).items() if times > 1 and name]:
        raise ValueError(f"its columns should have different names, but {duplicates[0]!r} occurs twice. Rename one.")


def _npz_frame(pandas: Any, path: Path, columns: Iterable[str]) -> Any:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not an npz archive.")
    with np.load(path, allow_pickle=False) as arrays:
        if "X" not in arrays or _array(arrays, "X").ndim != 2:
            raise ValueError(f"it should have a matrix 'X', but has {', '.join(arrays.files) or 'nothing'}.")
        X = arrays["X"]
        if X.dtype.kind not in "biuf":
            raise ValueError(f"its matrix 'X' should hold numbers, but holds {X.dtype}.")
        X = X.astype(np.float32 if X.dtype.itemsize <= 4 else np.float64)
        frame = pandas.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
        taken, names = {}, {}
        for name in dict.fromkeys(columns):
            if name not in arrays:
                continue
            taken[name] = _array(arrays, name)
            if taken[name].shape != (len(X),):
                raise ValueError(
                    f"'{name}' should have one entry per row of 'X' ({len(X)}), but has shape {taken[name].shape}."
                )
            for key in (_NAMES.get(name, ""), f"{name}_names", f"{name}s"):
                if key in arrays and _array(arrays, key).ndim == 1:
                    names[name] = [str(label) for label in arrays[key]]
                    break
        frame = pandas.concat([frame, pandas.DataFrame(taken, index=frame.index)], axis=1)
        frame.attrs = {"names": names, "arrays": arrays.files}
    return frame


def _array(arrays: Any, name: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = arrays[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(
            f"'{name}' should be a plain array of numbers or text, but holds Python objects, which are not loaded. "
            f"Save {name}.astype(str) or {name}.astype(float) instead."
        ) from None
    return array


_NAMES = {"y": "classes", "domain": "domains", "group": "group_names"}
"""Names under which `embed` stores the labels of what it writes as indices."""
