"""Errors in one line, with the line of the user's code that raised them."""

import sysconfig
import traceback
from pathlib import Path

from momentalign._machine import is_ours


def user_location(error: BaseException) -> str:
    """File and line of the user's code that raised an error, in brackets; "" where it was not the user's code."""
    files = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    begin = next((k for k, (file, _) in enumerate(files) if is_ours(file)), len(files))
    python = (sysconfig.get_path("stdlib"), "<")
    own = [
        f"({file}, line {line})"
        for file, line in files[begin:]
        if Path(file).is_absolute()  # compiled code has other names
        and not is_ours(file)
        and not file.startswith(python)
        and not {"site-packages", "dist-packages"} & set(Path(file).parts)
    ]
    return own[-1] if own else ""


def first_line(error: BaseException) -> str:
    """First line of an error's message, or its type where there is no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def describe_error(error: BaseException) -> str:
    """First line of an error's message, its type unless the message is for users, and the location in user code."""
    text = first_line(error)
    if str(error).strip() and not isinstance(error, ValueError | OSError | ModuleNotFoundError):
        text = f"{type(error).__name__}: {text}"
    return f"{text} {user_location(error)}".rstrip()
