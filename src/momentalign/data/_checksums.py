"""Checksums of files and folders, and the lock file of first downloads."""

import datetime
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from filelock import FileLock

from momentalign._files import atomic_file, atomic_write
from momentalign._json import read_json
from momentalign.data._sources import data_folder

ByteProgress = Callable[[str, int, int | None], None]
"""Called with the action, the number of bytes done, and the total if known."""

BLOCK_BYTES = 1 << 20
LOCK_FILE = "momentalign.lock.json"
DOWNLOADS = ".downloads"
LOCK_GUARD = "record.lock"
"""Beside the downloads; held while the lock file is written."""


def no_progress(action: str, done: int, total: int | None) -> None:
    """Ignore progress."""


def read_blocks(file: BufferedIOBase) -> Iterator[bytes]:
    """Read the rest of an open file in blocks."""
    while block := file.read(BLOCK_BYTES):
        yield block


def digest(path: Path, algorithm: str = "sha256", progress: ByteProgress = no_progress) -> str:
    """Hexadecimal checksum of a file.

    After "gunzip-" the checksum is of the unpacked content of a gzip file, which mirrors may pack differently.
    """
    unpack = algorithm.startswith("gunzip-")
    checksum = hashlib.new(algorithm.removeprefix("gunzip-"), usedforsecurity=False)
    total = None if unpack else path.stat().st_size
    done = 0
    with gzip.open(path) if unpack else path.open("rb") as file:
        for block in read_blocks(file):
            checksum.update(block)
            done += len(block)
            progress(f"checking {path.name}", done, total)
    return checksum.hexdigest()


def compare_checksum(path: Path, expected: str, progress: ByteProgress = no_progress) -> str | None:
    """Compare a file with "sha256:1f3a…" or "gunzip-md5:6bbc…", or either of "a|b".

    Returns:
        None if it matches, else a sentence for each checksum that does not.
    """
    problems = []
    for one in expected.split("|"):
        problem = _compare(path, one, progress)
        if problem is None:
            return None
        problems.append(problem)
    return " ".join(problems)


def _compare(path: Path, expected: str, progress: ByteProgress) -> str | None:
    algorithm, _, digits = expected.partition(":")
    try:
        actual = digest(path, algorithm, progress)
    except (EOFError, gzip.BadGzipFile) as error:
        return f"{path} should be a gzip file, but cannot be unpacked: {error}."
    what = f"the content of {path}" if algorithm.startswith("gunzip-") else str(path)
    name = algorithm.removeprefix("gunzip-")
    return None if actual == digits else f"{name} of {what} is {actual}, expected {digits}."


def write_manifest(folder: Path, manifest: Path, progress: ByteProgress = no_progress) -> int:
    """Write the checksum of every file of a folder atomically, in the format of sha256sum; return their number."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    total, done = sum(path.stat().st_size for path in paths), 0
    with atomic_file(manifest) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for path in paths:
            file.write(f"{digest(path)}  {path.relative_to(folder).as_posix()}\n")
            done += path.stat().st_size
            progress("recording checksums", done, total)
    return len(paths)


def check_manifest(folder: Path, manifest: Path, progress: ByteProgress = no_progress) -> list[str]:
    """Compare a folder with its manifest: a sentence for each file that is missing or differs."""
    lines = [line.partition("  ") for line in manifest.read_text(encoding="utf-8").splitlines()]
    files = [(folder / name, digits) for digits, _, name in lines]
    sizes = [path.stat().st_size if path.is_file() else None for path, _ in files]
    total, done = sum(size or 0 for size in sizes), 0
    problems = []
    for (path, digits), size in zip(files, sizes, strict=True):
        if size is None:
            problems.append(f"{path} is missing.")
        elif problem := compare_checksum(path, f"sha256:{digits}"):
            problems.append(problem)
        done += size or 0
        progress(f"checking {folder.name}", done, total)
    return problems


def read_lock_file(root: str | Path | None = None) -> dict[str, Any]:
    """First downloads of a data folder: sha256, bytes, address and date, by "data set/file"."""
    path = data_folder(root) / LOCK_FILE
    if not path.exists():
        return {}
    try:
        return dict(read_json(path)["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} should be a lock file of 'momentalign data', but cannot be read: {error}.") from None


def record_download(root: Path, key: str, path: Path, url: str, progress: ByteProgress) -> None:
    """Add a downloaded file to the lock file, which later downloads are compared with."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    entry = {"sha256": digest(path, progress=progress), "bytes": path.stat().st_size, "from": url, "date": today}
    guard = root / DOWNLOADS / LOCK_GUARD
    guard.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(guard):  # other data sets may be fetched at the same time
        files = read_lock_file(root) | {key: entry}
        content = json.dumps({"format": 1, "files": dict(sorted(files.items()))}, indent=1)
        atomic_write(root / LOCK_FILE, content + "\n")
