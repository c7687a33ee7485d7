"""Files that appear whole or not at all, and places for them that are looked at before the work is done."""

import errno
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class DiskFullError(OSError):
    """There is no room left to write; what was written before can be gone on from."""


def is_full(error: BaseException) -> bool:
    """Whether an error says that there is no room left to write."""
    if isinstance(error, DiskFullError):
        return True
    numbers = (errno.ENOSPC, errno.EDQUOT)
    # What safetensors says has the number in its text only.
    return isinstance(error, OSError) and (
        error.errno in numbers or any(f"(os error {number})" in str(error) for number in numbers)
    )


@contextmanager
def whole_file(path: Path, *, beside: Path | None = None) -> Iterator[Path]:
    """Write a file under another name, which takes its place when the block is through.

    The other name is used by this call only, so that processes that write the same file never meet: the last one wins.
    When the block fails, what lay at `path` stays and nothing else is left; only a kill leaves the hidden other file.

    Args:
        path: The file.
        beside: Folder of the other name, on the same disk; by default that of `path`.

    Yields:
        Where to write.

    Raises:
        OSError: The disk is full, for instance. It names `path`, not the other file.
    """
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir()):
        yield path  # a device or a pipe takes what comes
        return
    path = path.resolve() if path.is_symlink() else path  # what a link names is replaced, not the link
    unfinished = (beside or path.parent) / f".{path.name}.{uuid.uuid4().hex[:16]}.tmp"
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        if error.filename != str(unfinished):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file at once: what is there under its name is whole.

    Args:
        path: Where to; its folder exists.
        content: Text is written as UTF-8, its line ends as they are.
    """
    with whole_file(path) as unfinished:
        try:
            unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:  # of a full disk the system does not say which file it was
            raise OSError(error.errno, error.strerror, str(unfinished)) from None


def check_output(path: Path, endings: tuple[str, ...], *, inputs: Iterable[Path] = ()) -> None:
    """Refuse a place for a file before the work is done that would be lost there.

    Args:
        path: Where the file will go; a device or a pipe takes what comes.
        endings: What its name may end in.
        inputs: Files that it is made from, which it must not replace.

    Raises:
        ValueError: The place is a folder, ends otherwise, is one of the inputs, or takes no files.
    """
    if path.is_dir():
        raise ValueError(f"'--out' should name a file, but {path} is a folder.")
    if path.exists() and not path.is_file():
        return
    if path.suffix not in endings:
        raise ValueError(f"'--out' should end in {' or '.join(endings)}, but is {path}.")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"'--out' should name another file than {source}, which would be replaced.")
    check_takes_files(path.resolve().parent)


def check_takes_files(folder: Path) -> None:
    """Make sure that files can be written to a folder.

    Args:
        folder: It or a folder above it is there.

    Raises:
        ValueError: They cannot.
    """
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        raise ValueError(f"'--out' should lie in a folder, but {there} is a file.")
    try:
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError as error:
        raise ValueError(
            f"'--out' should lie where files can be written, but {there} takes none ({error.strerror}). Name another."
        ) from None
