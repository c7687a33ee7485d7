"""Locks: one process trains in a run's folder, and sweeps that share a folder claim its runs."""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from filelock import FileLock, Timeout

LOCK = ".lock"
"""File in a run's folder that is locked by the process that trains there. POSIX releases a process's lock when it
closes any handle of the file, so nothing else opens it."""

_held: dict[Path, IO[bytes]] = {}
"""Lock files that this process holds, by folder."""
_guard = threading.Lock()

_RETRIES = 100

_T = TypeVar("_T")


class BusyError(ValueError):
    """Another process trains in a run's folder."""


def is_busy(folder: Path) -> bool:
    """Whether this process or another trains in a folder."""
    with _guard:
        if folder.resolve() in _held:
            return True
        try:
            with (folder / LOCK).open("rb") as file:
                return not _try_lock(file, shared=True)
        except OSError:  # none yet, or not ours to read
            return False


def lock(folder: Path) -> None:
    """Lock a folder until :func:`release` or the end of the process; raises BusyError if it is locked already."""
    with _guard:
        if folder.resolve() in _held:
            raise BusyError(f"This process already trains in {folder}. Wait for it, or name another folder.")
        for _ in range(_RETRIES):
            file = (folder / LOCK).open("ab")
            if not _try_lock(file, shared=False):
                file.close()
                raise BusyError(f"Another process trains in {folder}. Wait for it, or name another folder.")
            if _is_current(file, folder / LOCK):
                break
            file.close()  # its last holder has removed it since
        _held[folder.resolve()] = file


def release(folder: Path) -> None:
    """Release a folder if this process has locked it."""
    with _guard:
        file = _held.pop(folder.resolve(), None)
        if file is not None:
            with contextlib.suppress(OSError):  # the folder may be gone
                (folder / LOCK).unlink()
            file.close()


def _try_lock(file: IO[bytes], *, shared: bool) -> bool:
    """Lock a file unless another process holds it; always succeeds where there are no locks."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return True
    try:
        # Not flock: forked processes that read images would hold it a while longer than this one.
        fcntl.lockf(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_current(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def in_shared_folder(folder: Path, action: Callable[[], _T]) -> _T:
    """Create a folder and call `action`; retries if another sweep removes the folder while it is empty."""
    for _ in range(_RETRIES):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            folder.mkdir(parents=True, exist_ok=True)
            return action()
    folder.mkdir(parents=True, exist_ok=True)
    return action()


class Claims:
    """Locks on the runs of a sweep's folder, which the operating system releases when the process ends."""

    def __init__(self, out: Path) -> None:
        self.folder = out / ".locks"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._held: dict[str, FileLock] = {}

    def acquire(self, name: str) -> bool:
        """Claim a run; False if another sweep holds it."""
        lock = FileLock(self.folder / name, timeout=0)
        try:
            in_shared_folder(self.folder, lock.acquire)
        except Timeout:
            return False
        self._held[name] = lock
        return True

    def release(self, name: str, *, finished: bool) -> None:
        """Release a run, and remove the lock file of a finished one, which nobody needs to claim again."""
        if finished:
            (self.folder / name).unlink(missing_ok=True)
        self._held.pop(name).release()

    def release_all(self) -> None:
        """Release all runs."""
        for name in list(self._held):
            self.release(name, finished=False)
        with contextlib.suppress(OSError):  # not empty: failed runs, or another sweep
            self.folder.rmdir()
