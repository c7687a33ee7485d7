"""Read CSV files, plain or gzipped, after checks of the header that pandas lacks or reports unclearly."""

import codecs
import csv
import gzip
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from momentalign._table_spec import is_tsv

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


class Dialect(NamedTuple):
    """Separator and encoding of a CSV file."""

    sep: str
    encoding: str

    @classmethod
    def of(cls, path: Path, sep: str | None, encoding: str | None) -> "Dialect":
        """The given values, or the defaults of the file's suffix."""
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


def csv_frame(pandas: Any, path: Path, columns: Iterable[str], text_columns: Iterable[str], dialect: Dialect) -> Any:
    """Read a file; see :func:`read_frame`."""
    try:
        _check_header(path, dialect)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(path, index_col=False, **dialect._asdict())
    except UnicodeError:
        raise _not_text(dialect, path) from None
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


def _check_header(path: Path, dialect: Dialect) -> None:
    """Check that column names are unique and separated as the dialect says."""
    with io.TextIOWrapper(_open_bytes(path), encoding=dialect.encoding) as text:
        header = next((line.strip("\r\n") for line in text if line.strip("\r\n")), "")
    if not header.strip():
        raise ValueError("it should have a line of column names and rows below, but is empty. Save the table again.")
    if "\0" in header:
        raise _not_text(dialect)
    check_unique(next(csv.reader([header], delimiter=dialect.sep)))
    others = [separator for separator in _SEPARATORS if separator in header]
    if others and dialect.sep not in header:
        shown = header if len(header) <= 60 else header[:60] + "…"
        wanted = _SEPARATORS.get(dialect.sep, repr(dialect.sep))
        option = "tab" if others[0] == "\t" else f"'{others[0]}'"
        raise ValueError(
            f"its columns should be separated by {wanted}, but are separated by {_SEPARATORS[others[0]]}: {shown!r}. "
            f"Use --sep {option}."
        )


def _open_bytes(path: Path) -> Any:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _not_text(dialect: Dialect, path: Path | None = None) -> ValueError:
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


def check_unique(names: Iterable[str]) -> None:
    """Raise ValueError where two columns have the same name."""
    if duplicates := [name for name, times in Counter(names).items() if times > 1 and name]:
        raise ValueError(f"its columns should have different names, but {duplicates[0]!r} occurs twice. Rename one.")
