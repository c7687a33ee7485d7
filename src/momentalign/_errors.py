"""Errors in one line and warnings, with the line of the user's code that they are about."""

import sys
import sysconfig
import traceback
import warnings
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


_PASSED = ("momentalign", "sklearn", "joblib")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line, the nearest outside of this package and of scikit-learn, which may have called it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
