"""Atomic and durable writes of files and folders.

Everything is written under a temporary name, synced to disk and then renamed: after a kill, a full disk or a power
failure a file or folder has its old or its new content, never a part of it.
"""

import errno
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tmp")
_LEFTOVER_SECONDS = 3600.0
"""Age from which a temporary file is taken to be abandoned."""


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
    is unchanged and the temporary file is removed; a killed process leaves it behind, and the next write of the same
    file removes it if it is old. `temporary_folder` is on the same disk, by default the folder of `path`. Errors name
    `path`, not the temporary file.
    """
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir()):
        yield path  # a device or a pipe is written to directly
        return
    path = path.resolve() if path.is_symlink() else path  # replace the target of a link, not the link
    temporary = _temporary(path.name, temporary_folder or path.parent)
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
        remove_leftovers(path.parent, path.name, age=_LEFTOVER_SECONDS)
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


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `path`, which does not exist or is empty, when the block succeeds."""
    path = path.absolute()
    new = _temporary(path.name, path.parent)
    try:
        new.mkdir(parents=True)
        yield new
        _sync_tree(new)
        if path.exists():
            path.rmdir()  # fails where it is not empty
        new.rename(path)
        sync(path.parent)
        remove_leftovers(path.parent, path.name, age=_LEFTOVER_SECONDS)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for inner, _, files in os.walk(folder):
        for name in files:
            sync(Path(inner, name))
        sync(Path(inner))


def is_leftover(path: Path) -> bool:
    """Whether a path is a temporary one of this module: being written, or left by a killed writer."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(folder: Path, *names: str, age: float = 0.0) -> None:
    """Remove temporary files and folders of `names` that killed writers left, older than `age` seconds.

    An age of 0 is for locked folders, where no other process writes.
    """
    for path in list(folder.iterdir()):
        match = _TEMPORARY.fullmatch(path.name)
        if match and match[1] in names:
            with suppress(OSError):
                if time.time() - path.stat().st_mtime >= age:
                    _remove(path)


def remove_folder(path: Path) -> None:
    """Remove a folder atomically, if there is one."""
    if path.exists():
        temporary = _temporary(path.name, path.parent)
        path.rename(temporary)
        shutil.rmtree(temporary)
        remove_leftovers(path.parent, path.name, age=_LEFTOVER_SECONDS)


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on disk."""
    if path.is_dir():
        with suppress(OSError):  # Windows, and some network disks
            _fsync(path)
    else:
        _fsync(path)


def file_digest(path: Path) -> str:
    """Hexadecimal sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)


def _temporary(name: str, folder: Path) -> Path:
    return folder / f".{name}.{uuid.uuid4().hex[:16]}.tmp"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
