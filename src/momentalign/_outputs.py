"""Output paths: checked before work starts, and written atomically."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from momentalign._files import atomic_write


def check_output(path: Path, suffixes: tuple[str, ...], *, inputs: Iterable[Path] = ()) -> None:
    """Raise ValueError, before any work, if the output file `path` cannot be written or would replace an input."""
    if path.is_dir():
        raise ValueError(f"'--out' should name a file, but {path} is a folder.")
    if path.exists() and not path.is_file():
        return  # a device or a pipe
    if path.suffix not in suffixes:
        raise ValueError(f"'--out' should end in {' or '.join(suffixes)}, but is {path}.")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"'--out' should name another file than the input {source}, which would be overwritten.")
    check_writable(path.resolve().parent)


def check_folder(path: Path, option: str = "--out") -> None:
    """Raise ValueError if the output folder `path` is a file."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"'{option}' should name a folder, but {path} is a file.")


def existing_folder(folder: Path) -> Path:
    """`folder`, an absolute path, or its first existing parent."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def check_writable(folder: Path) -> None:
    """Raise ValueError if files cannot be written to `folder`, or to its first existing parent."""
    existing = existing_folder(folder)
    if not existing.is_dir():
        raise ValueError(f"'--out' should be inside a folder, but {existing} is a file.")
    try:
        with tempfile.TemporaryFile(dir=existing):
            return
    except OSError as error:
        raise ValueError(
            f"'--out' should be in a writable folder, but {existing} is not ({error.strerror}). Choose another."
        ) from None


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file atomically, and make its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, content)
