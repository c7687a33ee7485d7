"""One process a folder: two would write into each other's records."""

from io import BufferedRandom
from pathlib import Path


class BusyError(ValueError):
    """Another process trains in a run's folder."""


def is_busy(folder: Path) -> bool:
    """Whether another process trains in a folder. Not to be asked by one that does: it would let go of its lock."""
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
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return
    try:
        # Not flock: processes that read images are forked and would hold the lock a while longer than this one.
        fcntl.lockf(records, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        records.close()
        raise BusyError(f"Another process trains in {folder}. Wait for it, or name another folder.") from None
    except OSError:  # a file system that knows no locks
        return
