"""Read CSV, TSV, parquet and npz files as data frames, with names for labels stored as indices."""

import importlib
import reprlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from momentalign._extras import require
from momentalign._format import join_ends, join_names, suggest
from momentalign._json import parse_json
from momentalign._table_spec import TABLE_SUFFIXES, is_table
from momentalign.tables._csv_files import Dialect, check_unique, csv_frame

METADATA_KEY = "momentalign"
"""Key of a parquet file's metadata, and name of an npz file's array, that hold what `embed` stores as JSON."""

_BINARY = (".npz", ".parquet")


def read_frame(
    path: str | Path,
    columns: Iterable[str] = (),
    *,
    text_columns: Iterable[str] = (),
    sep: str | None = None,
    encoding: str | None = None,
) -> Any:
    """Read a file as a data frame.

    An npz file gives the columns `x0`, `x1`, … of its matrix `X`, and the arrays named by `columns`; other files are
    read whole. In a CSV file words such as NA and None count as missing values, except in a text column, where NA may
    be North America, and except None in the other named columns, where it may be a class.

    `columns` are those with a meaning (target, domain, …), if they exist, and `text_columns` those of them that hold
    names. `sep` and `encoding` are those of a CSV file: by default UTF-8, with tabs in a .tsv file, else commas.

    The `attrs` of the frame hold, by column, the `"names"` that a parquet or npz file has for the column's
    indices, and the `"words"` of a CSV file's text columns that would count as missing values elsewhere.
    """
    pandas = require("pandas", "Tables need", extra="cli")
    path = Path(path)
    dialect = _check_file(path, sep, encoding)
    suffix = path.suffix.lower()
    with _describe_damage(path):
        if suffix == ".npz":
            return _npz_frame(pandas, path, columns)
        if suffix == ".parquet":
            return _parquet_frame(pandas, path)
        return csv_frame(pandas, path, columns, text_columns, dialect)


def read_parquet_metadata(path: Path) -> dict[str, Any]:
    """Metadata that `embed` stored in a parquet file: its plan, and the names of classes, domains and groups."""
    parquet = importlib.import_module("pyarrow.parquet")
    stored = (parquet.read_schema(path).metadata or {}).get(METADATA_KEY.encode())
    try:
        return dict(parse_json(stored)) if stored else {}
    except (ValueError, TypeError):
        raise ValueError(
            f"{path.name} should have a JSON object as its metadata '{METADATA_KEY}', but has something else. Write "
            "the file again."
        ) from None


def _check_file(path: Path, sep: str | None, encoding: str | None) -> Dialect:
    """Check that a file exists and is a table by its suffix; its separator and encoding, if it is a CSV file."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if not is_table(path) or not path.is_file():
        kind = ", but is a folder" if path.is_dir() else ""
        raise ValueError(
            f"{path.name} should be a {', '.join(TABLE_SUFFIXES[:-1])} or {TABLE_SUFFIXES[-1]} file{kind}."
        )
    if path.suffix.lower() in _BINARY:
        for name, value in (("sep", sep), ("encoding", encoding)):
            if value is not None:
                raise ValueError(f"'--{name}' is for CSV files, but {path.name} is none. Omit it.")
    return Dialect.of(path, sep, encoding)


@contextmanager
def _describe_damage(path: Path) -> Iterator[None]:
    """Name the file in all errors of reading it."""
    try:
        yield
    except ModuleNotFoundError:  # pyarrow
        raise
    except Exception as error:  # pandas, pyarrow, NumPy and zipfile raise all kinds of errors for damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path.name} could not be read: {reason.removesuffix('.')}.") from None


class MissingColumnError(ValueError):
    """A table lacks columns, given as name by option; the message lists those that it has."""

    def __init__(self, missing: Mapping[str, str], columns: Iterable[str], path: Path) -> None:
        existing = list(columns)
        names = join_names([f"'{name}' ({option})" for option, name in missing.items()])
        options = join_names([f"--{option}" for option in missing])
        several = len(missing) > 1
        super().__init__(
            f"{path.name} should have {'columns' if several else 'a column'} {names}, but has none. Name the right "
            f"{'ones' if several else 'one'} with {options}. Found: {join_ends(existing)}."
            + "".join(suggest(name, existing) for name in missing.values())
        )


def _parquet_frame(pandas: Any, path: Path) -> Any:
    check_unique(importlib.import_module("pyarrow.parquet").read_schema(path).names)
    frame = pandas.read_parquet(path)
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame.columns = [str(column) for column in frame.columns]
    check_unique(frame.columns)
    names = read_parquet_metadata(path)
    frame.attrs = {"names": {column: _texts(names[key], key) for column, key in _NAMES.items() if names.get(key)}}
    return frame


def _texts(names: Any, key: str) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"its metadata should have a list of names as '{key}', but has {reprlib.repr(names)}.")
    return names


def _npz_frame(pandas: Any, path: Path, columns: Iterable[str]) -> Any:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not an npz archive.")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        X = arrays.get("X")
        if X is None or X.ndim != 2:
            raise ValueError(f"it should have a matrix 'X', but has {', '.join(arrays.files) or 'nothing'}.")
        if X.dtype.kind not in "biuf":
            raise ValueError(f"its matrix 'X' should hold numbers, but holds {X.dtype}.")
        X = X.astype(np.float32 if X.dtype.itemsize <= 4 else np.float64)
        frame = pandas.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
        taken, names = {}, {}
        for name in dict.fromkeys(columns):
            if (values := arrays.get(name)) is None:
                continue
            taken[name] = values
            if taken[name].shape != (len(X),):
                raise ValueError(
                    f"'{name}' should have one entry per row of 'X' ({len(X)}), but has shape {taken[name].shape}."
                )
            for key in (_NAMES.get(name, ""), f"{name}_names", f"{name}s"):
                if (labels := arrays.get(key)) is not None and labels.ndim == 1:
                    names[name] = [str(label) for label in labels]
                    break
        frame = pandas.concat([frame, pandas.DataFrame(taken, index=frame.index)], axis=1)
        frame.attrs = {"names": names, "arrays": arrays.files}
    return frame


_NAMES = {"y": "classes", "domain": "domains", "group": "group_names"}
"""Names under which `embed` stores the labels of what it writes as indices."""
