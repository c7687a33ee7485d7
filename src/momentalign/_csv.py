"""CSV text that spreadsheets open without running formulas."""

import csv
import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""First characters of cells that spreadsheets take as formulas; the last four are full-width = + - @."""
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+|inf|nan)([eE][+-]?\d+)?%?")


def csv_cell(value: Any) -> Any:
    """Escape text that a spreadsheet would take as a formula with an apostrophe.

    Signed numbers, such as a class "-1" or a domain "+90%", are unchanged, and so are values that are not text.

    Example:
        >>> [csv_cell(value) for value in ("=1+1", "-1", "-90%", "a=b", -1.5)]
        ["'=1+1", '-1', '-90%', 'a=b', -1.5]
    """
    if not isinstance(value, str):
        return value
    return f"'{value}" if _is_formula(value) else value


def plain_cell(text: str) -> str:
    """Inverse of :func:`csv_cell` for text."""
    return text[1:] if text.startswith("'") and _is_formula(text) else text


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as the text of a CSV file, the column names first; missing values, None and NaN, are empty cells."""
    lines: list[str] = []
    # Only with "\r\n" does the writer quote a "\r" in a name, which readers would take as the end of a row.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    for row in rows:
        writer.writerow(["" if value is None or value != value else csv_cell(value) for value in row])
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def frame_csv(frame: Any, *, index: bool = False) -> str:
    """A pandas data frame as the text of a CSV file, with its index if `index` is True."""
    frame = frame.reset_index() if index else frame
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return csv_text([map(str, frame.columns), *rows])


def _is_formula(text: str) -> bool:
    """Whether text, or text with apostrophes before it, looks like a formula."""
    content = text.lstrip("'")
    return _FORMULA.match(content) is not None and _NUMBER.fullmatch(content) is None
