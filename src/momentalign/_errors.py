"""Errors in one line, with the place in a user's own code where they come from one."""

import sysconfig
import traceback
from pathlib import Path

from momentalign._machine import is_ours


def place_of(error: BaseException) -> str:
    """Where in a user's own code an error comes from, a penalty's for instance; nothing where all of it is ours.

    Args:
        error: As it was caught.

    Returns:
        File and line in brackets, or "".
    """
    files = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    begin = next((k for k, (file, _) in enumerate(files) if is_ours(file)), len(files))
    python = (sysconfig.get_path("stdlib"), "<")
    own = [
        f"({file}, line {line})"
        for file, line in files[begin:]
        if Path(file).is_absolute()  # what is compiled has names of its own
        and not is_ours(file)
        and not file.startswith(python)
        and not {"site-packages", "dist-packages"} & set(Path(file).parts)
    ]
    return own[-1] if own else ""


def in_one_line(error: BaseException) -> str:
    """What went wrong, and where if it was in a user's own code.

    Args:
        error: As it was caught.

    Returns:
        The first line of its message. The kind of error is named where the message was not written for people.
    """
    lines = str(error).strip().splitlines()
    plain = isinstance(error, ValueError | OSError | ModuleNotFoundError) and lines
    text = lines[0] if plain else f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return " ".join(filter(None, [text, place_of(error)]))
