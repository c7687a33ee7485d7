"""Strict reading of JSON files, which a crash, another program or an attacker may have written."""

import errno
import json
import math
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

_MOST_LEVELS = 32
_SHOWN = 40


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; raises OSError for pipes and devices, which could block forever."""
    # Without O_NONBLOCK, opening a pipe waits for its writer. Windows has neither.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return file


def read_regular(path: Path) -> bytes:
    """Read a file; raises OSError for pipes and devices."""
    with open_regular(path) as file:
        return file.read()


def read_json(path: Path, *, nonfinite: bool = False) -> Any:
    """Read a JSON file; raises OSError for what is not a regular file, else as :func:`parse_json`."""
    return parse_json(read_regular(path), nonfinite=nonfinite)


def parse_json(content: bytes, *, nonfinite: bool = False) -> Any:
    """Parse JSON in UTF-8.

    Args:
        content: The text.
        nonfinite: Accept NaN and infinities, which are not JSON but which Python writes.

    Raises:
        ValueError: With a short reason: a syntax error, other bytes than UTF-8, NaN or infinities, numbers beyond
            float64, lone surrogates, or nesting that later code could not walk.
    """
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, line {error.lineno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_plain(value, nonfinite=nonfinite)
    return value


def _check_plain(value: Any, *, nonfinite: bool) -> None:
    """Raise ValueError for values that cannot be written or computed with again."""
    level: list[Any] = [value]
    for _ in range(_MOST_LEVELS):
        for item in level:
            _check_scalar(item, nonfinite=nonfinite)
        level = [item for container in level for item in _items(container)]
        if not level:
            return
    raise ValueError("nested too deeply")


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else ()


def _check_scalar(value: Any, *, nonfinite: bool) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{value[:_SHOWN]!a} holds half of a character") from None
    elif isinstance(value, int | float):
        try:
            finite = math.isfinite(value)
        except OverflowError:
            raise ValueError("a number is beyond the range of float64") from None
        if not finite and not nonfinite:
            raise ValueError(f"{value} is not a finite number")
