"""Files of tables: CSV, parquet and npz as one data frame, with names for what was stored as numbers."""

import csv
import difflib
import gzip
import importlib
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._extras import require

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz")
METADATA = b"momentalign"
"""Key of a parquet file's metadata under which `embed` writes the names of classes and groups, as JSON."""

_BROKEN = (ValueError, OSError, EOFError, KeyError, zlib.error, zipfile.BadZipFile)
"""What pandas, pyarrow and NumPy raise for files that are something else."""

_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_frame(path: str | Path, columns: Iterable[str] = (), *, names: Iterable[str] = ()) -> Any:
    """Read a file as a data frame.

    Of an npz file come the columns `x0`, `x1`, … of its matrix `X`, and the arrays that are asked for. Other files come
    whole. In a CSV file words such as NA and None count as missing values, but not in a column of names, where NA may
    be North America; and None may be a class.

    Args:
        path: A .csv, .csv.gz, .parquet or .npz file.
        columns: Columns that say what a row is, where they are there; of an npz file, arrays to take beside `X`.
        names: Those of them that hold names of places and the like.

    Returns:
        The frame. Its `attrs` hold, by column, the `"names"` that a parquet or npz file has for the column's indices,
        and the `"words"` of a CSV file's columns of names that elsewhere count as missing values.

    Raises:
        ValueError: Not such a file.
        FileNotFoundError: No such file.
    """
    pandas = require("pandas", "Tables need", extra="cli")
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if not path.name.endswith(SUFFIXES) or path.is_dir():
        raise ValueError(f"{path.name} should be a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file.")
    try:
        if path.suffix == ".npz":
            return _npz_frame(pandas, path, columns)
        frame = _parquet_frame(pandas, path) if path.suffix == ".parquet" else _csv_frame(pandas, path, columns, names)
    except UnicodeDecodeError:
        raise ValueError(
            f"{path.name} should be text in UTF-8, but is in another encoding, or no text. Save it as CSV in UTF-8."
        ) from None
    except _BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path.name} could not be read: {reason}") from None
    frame.columns = [str(column) for column in frame.columns]
    return frame


def with_names(column: NDArray[Any], names: Sequence[str] | None) -> NDArray[Any]:
    """Replace indices by the names they stand for; columns that hold something else stay as they are.

    Args:
        column: Shape (n,).
        names: Of 0, 1, …; None where there are none.

    Returns:
        Shape (n,).
    """
    integers = np.issubdtype(column.dtype, np.integer)
    if names is None or not integers or not len(column) or column.min() < 0 or column.max() >= len(names):
        return column
    named: NDArray[np.str_] = np.asarray(names, dtype=np.str_)[column]
    return named


class NoColumnError(ValueError):
    """A column that a table should have is not there.

    Args:
        option: What the column is for.
        name: Its name.
        found: Names of those that are there.
        path: The table.
    """

    def __init__(self, option: str, name: str, found: Iterable[str], path: Path) -> None:
        listed = list(found)
        near = difflib.get_close_matches(name, listed, 1)
        shown = ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")
        self.name, self.found = name, f"Found: {shown}." + (f" Meant '{near[0]}'?" if near else "")
        super().__init__(f"'{option}' should name a column of {path.name}, but is '{name}'. {self.found}")


def _csv_frame(pandas: Any, path: Path, columns: Iterable[str], names: Iterable[str]) -> Any:
    _check_header(path)
    frame = pandas.read_csv(path)
    named = [name for name in dict.fromkeys(columns) if name in frame.columns]
    doubtful = [name for name in named if frame[name].dtype.kind == "O" and frame[name].hasnans]
    words = dict[str, list[str]]()
    if doubtful:
        written = pandas.read_csv(path, usecols=doubtful, dtype=str, keep_default_na=False)
        for name in doubtful:
            missing = frame[name].isna() & (written[name] != "None") if name not in names else written[name] == ""
            found = written[name].mask(missing)
            words[name] = sorted(found[frame[name].isna()].dropna().unique())
            frame[name] = found
    frame.attrs = {"words": {name: found for name, found in words.items() if found}}
    return frame


def _check_header(path: Path) -> None:
    """Look at the line of column names, of which pandas would make one column of a long name, or say little."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        header = next((line.strip("\r\n") for line in file if line.strip()), None)
    if header is None:
        raise ValueError("it should have a line of column names and rows below, but is empty. Save the table anew.")
    names = next(csv.reader([header]))
    if twice := [name for name, times in Counter(names).items() if times > 1 and name]:
        raise ValueError(f"its columns should have different names, but {twice[0]!r} is there twice. Rename one.")
    found = [name for separator, name in _OTHER_SEPARATORS.items() if separator in header]
    if found and "," not in header:
        shown = header if len(header) <= 60 else header[:60] + "…"
        raise ValueError(
            f"its columns should be separated by commas, but are by {found[0]}: {shown!r}. Save it with commas."
        )


def _parquet_frame(pandas: Any, path: Path) -> Any:
    parquet = importlib.import_module("pyarrow.parquet")
    frame = pandas.read_parquet(path)
    stored = (parquet.read_schema(path).metadata or {}).get(METADATA)
    names = json.loads(stored) if stored else {}
    frame.attrs = {"names": {column: names[key] for column, key in _NAMES.items() if names.get(key)}}
    return frame


def _npz_frame(pandas: Any, path: Path, columns: Iterable[str]) -> Any:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no npz archive.")
    with np.load(path, allow_pickle=False) as arrays:
        if "X" not in arrays or _array(arrays, "X").ndim != 2:
            raise ValueError(f"it should have a matrix 'X', but has {', '.join(arrays.files) or 'nothing'}.")
        X = arrays["X"]
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
"""Where `embed` keeps the names of what it writes as indices."""
