"""Read CSV, TSV, parquet and npz files as data frames, with names for labels stored as indices."""

import codecs
import csv
import gzip
import importlib
import io
import re
import reprlib
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentalign._extras import require
from momentalign._format import format_size, join_ends, join_names, suggest
from momentalign._json import open_regular, parse_json
from momentalign._table_spec import TABLE_SUFFIXES, is_table, is_tsv

METADATA_KEY = "momentalign"
"""Key of a parquet file's metadata, and name of an npz file's array, that hold what `embed` stores as JSON."""

_LONGEST_HEADER = 1 << 26
_CHUNK = 1 << 20
_BINARY = (".npz", ".parquet")
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_MOST_EXPANDED = 2**28
_MOST_RATIO = 200
"""A gzip file may expand to `_MOST_EXPANDED` bytes, or to this many times its size: ten times what tables do."""


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
        return _csv_frame(pandas, path, columns, text_columns, dialect)


def read_header(path: Path, *, sep: str | None = None, encoding: str | None = None) -> list[str] | None:
    """Names of the columns of a CSV file from its first line, without imports that take seconds.

    None for other files, and where a name goes on in the next line.
    """
    dialect = _check_file(path, sep, encoding)
    if path.suffix.lower() in _BINARY:
        return None
    with _describe_damage(path):
        try:
            header = next((text for line in _blocks(path, dialect.encoding) if (text := line.strip("\r\n"))), "")
        except UnicodeError:
            raise _not_text(dialect, path) from None
        names = _header_names(header, dialect)
    if header.count('"') % 2:
        return None
    return [name or f"Unnamed: {index}" for index, name in enumerate(names)]  # as pandas calls them


def read_parquet_metadata(path: Path) -> dict[str, Any]:
    """What `embed` stored in a parquet file: its plan, and the names of classes, domains and groups."""
    parquet = importlib.import_module("pyarrow.parquet")
    stored = (parquet.read_schema(path).metadata or {}).get(METADATA_KEY.encode())
    try:
        return dict(parse_json(stored)) if stored else {}
    except (ValueError, TypeError):
        raise ValueError(
            f"{path.name} should have a JSON object as its metadata '{METADATA_KEY}', but has something else. Write "
            "the file again."
        ) from None


def _check_file(path: Path, sep: str | None, encoding: str | None) -> "_Dialect":
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
    return _Dialect.of(path, sep, encoding)


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


class _Dialect(NamedTuple):
    """Separator and encoding of a CSV file."""

    sep: str
    encoding: str

    @classmethod
    def of(cls, path: Path, sep: str | None, encoding: str | None) -> "_Dialect":
        """What was given, or the default of the file's suffix."""
        if sep is None:
            sep = "\t" if is_tsv(path) else ","
        sep = "\t" if sep in ("tab", "\\t") else sep
        if len(sep) != 1 or sep in '"\r\n':
            raise ValueError(f"'--sep' should be one character, such as ';', or 'tab', but is {sep!r}.")
        try:
            io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        except LookupError:
            raise ValueError(
                "'--encoding' should be one that Python knows, such as utf-8, latin-1, cp1252 or utf-16, but is "
                f"{encoding!r}."
            ) from None
        return cls(sep, "utf-8-sig" if encoding is None or encoding.lower() in ("utf-8", "utf8") else encoding)


def _csv_frame(pandas: Any, path: Path, columns: Iterable[str], text_columns: Iterable[str], dialect: _Dialect) -> Any:
    _check_text(path, dialect)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(path, index_col=False, **dialect._asdict())
    except pandas.errors.ParserWarning:
        raise ValueError("its rows should have as many values as there are column names, but have more.") from None
    except pandas.errors.ParserError as error:
        counts = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if counts is None:
            raise
        raise ValueError(
            f"line {counts[2]} should have {counts[1]} values like those above, but has {counts[3]}. Put quotation "
            "marks around text with separators in it."
        ) from None
    with_gaps = [
        name
        for name in dict.fromkeys(columns)
        if name in frame.columns and frame[name].dtype.kind == "O" and frame[name].hasnans
    ]
    words = dict[str, list[str]]()
    if with_gaps:
        raw = pandas.read_csv(path, usecols=with_gaps, dtype=str, keep_default_na=False, **dialect._asdict())
        for name in with_gaps:
            missing = raw[name] == "" if name in text_columns else frame[name].isna() & (raw[name] != "None")
            values = raw[name].mask(missing)
            words[name] = sorted(values[frame[name].isna()].dropna().unique())
            frame[name] = values
    frame.attrs = {"words": {name: kept for name, kept in words.items() if kept}}
    return frame


def _check_text(path: Path, dialect: _Dialect) -> None:
    """Refuse what pandas would accept or explain poorly: no text, no or duplicate columns, other separators, bombs."""
    packed = path.stat().st_size if path.suffix.lower() == ".gz" else None
    header, size = "", 0
    try:
        for block in _blocks(path, dialect.encoding):
            header, size = header or block.strip("\r\n"), size + len(block)
            if "\0" in block:
                raise _not_text(dialect)
            if packed is not None and size > max(_MOST_EXPANDED, _MOST_RATIO * packed):
                raise ValueError(
                    f"it expands to more than {format_size(size)}, {size / packed:.0f} times its size. If that is "
                    "right, unpack it with gunzip first."
                )
    except UnicodeError:
        raise _not_text(dialect, path) from None
    _header_names(header, dialect)


def _header_names(header: str, dialect: _Dialect) -> list[str]:
    """The columns' names, which should be different and separated as the dialect says."""
    if not header.strip():
        raise ValueError("it should have a line of column names and rows below, but is empty. Save the table again.")
    if "\0" in header:
        raise _not_text(dialect)
    names = next(csv.reader([header], delimiter=dialect.sep))
    _check_unique(names)
    others = [separator for separator in _SEPARATORS if separator in header]
    if others and dialect.sep not in header:
        shown = header if len(header) <= 60 else header[:60] + "…"
        wanted = _SEPARATORS.get(dialect.sep, repr(dialect.sep))
        option = "tab" if others[0] == "\t" else f"'{others[0]}'"
        raise ValueError(
            f"its columns should be separated by {wanted}, but are separated by {_SEPARATORS[others[0]]}: {shown!r}. "
            f"Use --sep {option}."
        )
    return names


def _blocks(path: Path, encoding: str) -> Iterator[str]:
    """The text of a file: lines up to the first that is not blank, then blocks of characters."""
    with io.TextIOWrapper(_open_bytes(path), encoding=encoding) as text:
        for line in iter(lambda: text.readline(_LONGEST_HEADER), ""):
            if len(line) == _LONGEST_HEADER:
                raise ValueError("its first line should hold column names, but does not end. Save the table again.")
            yield line
            if line.strip("\r\n"):
                break
        yield from iter(lambda: text.read(_CHUNK), "")


def _open_bytes(path: Path) -> Any:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _not_text(dialect: _Dialect, path: Path | None = None) -> ValueError:
    if dialect.encoding == "utf-8-sig":
        if path is not None:
            with _open_bytes(path) as file:
                if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    return ValueError("it should be text in UTF-8, but is in UTF-16. Use --encoding utf-16.")
        return ValueError(
            "it should be text in UTF-8, but is in another encoding, or not text. Save it as CSV in UTF-8, or name its "
            "encoding: --encoding cp1252 is usual on Windows."
        )
    return ValueError(f"it should be text in {dialect.encoding}, but is not. Use another --encoding.")


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
    with open_regular(path) as file, np.load(file, allow_pickle=False) as arrays:
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
