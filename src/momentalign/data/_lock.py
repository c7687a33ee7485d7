"""The lock file of a data folder: checksums of what was downloaded first, which later downloads are held to."""

import datetime
import json
from pathlib import Path
from typing import Any

from filelock import FileLock

from momentalign._files import atomic_write
from momentalign.data._checksums import Progress, digest
from momentalign.data._root import data_folder

LOCK = "momentalign.lock.json"
DOWNLOADS = ".downloads"
ONE_AT_A_TIME = "record.lock"
"""Beside the downloads: held by whoever writes the lock file."""


def recorded(root: str | Path | None = None) -> dict[str, Any]:
    """What the lock file says of downloaded files: sha256, bytes, address and date, by data set and file."""
    path = data_folder(root) / LOCK
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        files = content["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} should be a lock file of 'momentalign data', but cannot be read: {error}.") from None
    return dict(files)


def record(root: Path, key: str, path: Path, url: str, progress: Progress) -> None:
    """Write down what a downloaded file is.

    Args:
        root: Data folder.
        key: Data set and file.
        path: Where the file is now.
        url: Where it came from.
        progress: Told how far the checksum is.
    """
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    entry = {"sha256": digest(path, progress=progress), "bytes": path.stat().st_size, "from": url, "date": today}
    turn = root / DOWNLOADS / ONE_AT_A_TIME
    turn.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(turn):  # other data sets may be fetched at the same time
        files = recorded(root) | {key: entry}
        content = json.dumps({"format": 1, "files": dict(sorted(files.items()))}, indent=1)
        atomic_write(root / LOCK, content + "\n")
