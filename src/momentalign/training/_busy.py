"""One process a folder: two would write into each other's records."""

from io import BufferedRandom
from pathlib import Path

_held: set[Path] = set()
"""Folders that this process trains in. To look whether a file is locked lets go of one's own lock on it."""


class BusyError(ValueError):
    """Another process trains in a run's folder."""


def is_busy(folder: Path) -> bool:
    """Whether a run is being trained in a folder, by this process or another."""
    if folder.resolve() in _held:
        return True
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return False
    try:
        file = (folder / "records.jsonl").open("rb")
    except OSError:  # none yet, or not ours to read
        return False
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
        except OSError:  # a file system that knows no locks
            return False
    return False


def lock(records: BufferedRandom, folder: Path) -> None:
    """Keep other processes out of a folder for as long as its records are open.

    Args:
        records: The folder's records, opened to write.
        folder: The folder.

    Raises:
        BusyError: Another process has them, which are closed then.
    """
    if folder.resolve() in _held:
        records.close()
        raise BusyError(f"This process trains in {folder} already. Wait for it, or name another folder.")
    _held.add(folder.resolve())
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return
    try:
        # Not flock: processes that read images are forked and would hold the lock a while longer than this one.
        fcntl.lockf(records, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        records.close()
        release(folder)
        raise BusyError(f"Another process trains in {folder}. Wait for it, or name another folder.") from None
    except OSError:  # a file system that knows no locks
        return


def release(folder: Path) -> None:
    """Say that this process trains in a folder no longer."""
    _held.discard(folder.resolve())
