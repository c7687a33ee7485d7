"""Atomic and durable writes of files and folders.

Everything is written under a temporary name, synced to disk and then renamed: after a kill, a full disk or a power
failure a file or folder has its old or its new content, never a part of it.
"""

import errno
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
_STAGED = ".staged"


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
    with _folder_beside(path.absolute()) as new:
        yield new
        _sync_tree(new)
        if path.exists():
            path.rmdir()  # fails where it is not empty
        new.rename(path)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces the folder `path`, if there is one, when the block succeeds.

    Replacing takes two renames. Between them, and after a kill there, the previous folder is `PATH.old`, which
    :func:`last_complete` finds and the next call restores.
    """
    path = path.absolute()
    with _folder_beside(path) as new:
        recover_folder(path)
        yield new
        _sync_tree(new)
        if path.exists():
            path.rename(_previous(path))
        new.rename(path)
        sync(path.parent)
        recover_folder(path)


def recover_folder(path: Path) -> None:
    """Complete a replacement of the folder `path` that was killed, so that no `PATH.old` remains."""
    old = _previous(path)
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(path)


def _previous(path: Path) -> Path:
    return path.with_name(f"{path.name}.old")


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, which is removed unless it was renamed; so are those of killed writers."""
    new = _temporary(path.name, path.parent)
    try:
        new.mkdir(parents=True)
        yield new
        sync(path.parent)
        remove_leftovers(path.parent, path.name, age=_LEFTOVER_SECONDS)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for inner, _, files in os.walk(folder):
        for name in files:
            sync(Path(inner, name))
        sync(Path(inner))


def last_complete(path: Path) -> Path:
    """Path of the last folder that :func:`atomic_folder` completed; it may not exist. Safe during another write."""
    old = _previous(path)
    return old if old.exists() and not path.exists() else path


@contextmanager
def replace_files(folder: Path) -> Iterator[Path]:
    """Yield an empty folder whose files, when the block succeeds, replace those of the same names in `folder`.

    All are replaced or none; other files of `folder`, which may be a working directory or a mount, stay. The new files
    count from one rename on, to `folder/.staged`, and are then moved. After a kill in between :func:`file_in` finds
    those that have not been moved, and the next call moves them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new = _temporary(_STAGED.removeprefix("."), folder)
    try:
        new.mkdir()
        yield new
        for path in new.iterdir():
            sync(path)
        sync(new)
        _commit(new, folder / _STAGED)
        sync(folder)
        _move_staged(folder)
        sync(folder)
        remove_leftovers(folder, _STAGED.removeprefix("."), age=_LEFTOVER_SECONDS)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def file_in(folder: Path, name: str) -> Path:
    """Current path of a file that :func:`replace_files` writes; it may not exist."""
    staged = folder / _STAGED / name
    return staged if staged.exists() else folder / name


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


def _commit(new: Path, staged: Path) -> None:
    """Rename `new` to `staged`, after moving the files of an earlier commit."""
    while True:
        _move_staged(staged.parent)
        try:
            new.rename(staged)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return


def _move_staged(folder: Path) -> None:
    """Move committed files to their names; another process may be doing the same."""
    staged = folder / _STAGED
    with suppress(FileNotFoundError):
        for path in list(staged.iterdir()):
            with suppress(FileNotFoundError):
                path.replace(folder / path.name)
        try:
            staged.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise
