"""Atomic writes, and output paths checked before work starts."""

import errno
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class DiskFullError(OSError):
    """The disk is full; what was saved before can be resumed."""


def is_disk_full(error: BaseException) -> bool:
    """Whether an error reports a full disk or an exceeded quota."""
    if isinstance(error, DiskFullError):
        return True
    codes = (errno.ENOSPC, errno.EDQUOT)
    # safetensors gives the code in its text only.
    return isinstance(error, OSError) and (
        error.errno in codes or any(f"(os error {code})" in str(error) for code in codes)
    )


@contextmanager
def atomic_file(path: Path, *, temporary_folder: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` when the block succeeds.

    The temporary name is unique, so concurrent writers do not interfere: the last one wins. If the block fails, `path`
    is unchanged and the temporary file is removed; only a killed process leaves it behind. `temporary_folder` is on the
    same disk, by default the folder of `path`. Errors name `path`, not the temporary file.
    """
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir()):
        yield path  # a device or a pipe is written to directly
        return
    path = path.resolve() if path.is_symlink() else path  # replace the target of a link, not the link
    temporary = (temporary_folder or path.parent) / f".{path.name}.{uuid.uuid4().hex[:16]}.tmp"
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        if error.filename != str(temporary):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write(path: Path, content: str | bytes) -> None:
    """Write a file atomically; text is encoded as UTF-8 with its line ends unchanged."""
    with atomic_file(path) as temporary:
        try:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:  # the error of a full disk has no file name
            raise OSError(error.errno, error.strerror, str(temporary)) from None


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


def check_writable(folder: Path) -> None:
    """Raise ValueError if files cannot be written to `folder`, or to its first existing parent."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir():
        raise ValueError(f"'--out' should be inside a folder, but {existing} is a file.")
    try:
        with tempfile.TemporaryFile(dir=existing):
            return
    except OSError as error:
        raise ValueError(
            f"'--out' should be in a writable folder, but {existing} is not ({error.strerror}). Choose another."
        ) from None
