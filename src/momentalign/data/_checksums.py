"""Checksums of files and of whole folders."""

import gzip
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from momentalign._files import atomic_file

Progress = Callable[[str, int, int | None], None]
"""Called now and then with what is being done, how many bytes of it are done, and how many there are if known."""

BLOCK = 1 << 20


class Readable(Protocol):
    """An open file, archive member or answer of a server."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes, none at the end."""


def quiet(what: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


def digest(path: Path, algorithm: str = "sha256", progress: Progress = quiet) -> str:
    """Checksum of a file.

    Args:
        path: The file.
        algorithm: A name that hashlib knows; after "gunzip-" the checksum is of what the gzipped file holds, which
            stays the same when it is packed again.
        progress: Told how far it is.

    Returns:
        Hexadecimal digits.
    """
    unpack = algorithm.startswith("gunzip-")
    checksum = hashlib.new(algorithm.removeprefix("gunzip-"), usedforsecurity=False)
    total = None if unpack else path.stat().st_size
    done = 0
    with gzip.open(path) if unpack else path.open("rb") as file:
        for block in blocks(file):
            checksum.update(block)
            done += len(block)
            progress(f"checking {path.name}", done, total)
    return checksum.hexdigest()


def check(path: Path, expected: str, progress: Progress = quiet) -> str | None:
    """Compare a file with a checksum.

    Args:
        path: The file.
        expected: Algorithm and digits, for instance "sha256:1f3a…" or "gunzip-md5:6bbc…"; "a|b" is either.
        progress: Told how far it is.

    Returns:
        None if it is the one, else a sentence for each that it is not.
    """
    problems = []
    for one in expected.split("|"):
        problem = _compare(path, one, progress)
        if problem is None:
            return None
        problems.append(problem)
    return " ".join(problems)


def _compare(path: Path, expected: str, progress: Progress) -> str | None:
    algorithm, _, digits = expected.partition(":")
    try:
        found = digest(path, algorithm, progress)
    except (EOFError, gzip.BadGzipFile) as error:
        return f"{path} should be a gzip file, but cannot be unpacked: {error}."
    what = (
        f"{algorithm.removeprefix('gunzip-')} of {'the content of ' if algorithm.startswith('gunzip-') else ''}{path}"
    )
    return None if found == digits else f"{what} is {found}, expected {digits}."


def blocks(file: Readable) -> Iterator[bytes]:
    """The rest of an open file, a mebibyte at a time."""
    while block := file.read(BLOCK):
        yield block


def write_manifest(folder: Path, manifest: Path, progress: Progress = quiet) -> int:
    """Write the checksum of every file of a folder, in the format of the tool sha256sum.

    Args:
        folder: The folder.
        manifest: The file to write, whole or not at all.
        progress: Told how far it is.

    Returns:
        How many files there are.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    total, done = sum(path.stat().st_size for path in paths), 0
    with atomic_file(manifest) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for path in paths:
            file.write(f"{digest(path)}  {path.relative_to(folder).as_posix()}\n")
            done += path.stat().st_size
            progress("recording checksums", done, total)
    return len(paths)


def check_manifest(folder: Path, manifest: Path, progress: Progress = quiet) -> list[str]:
    """Compare a folder with its manifest.

    Args:
        folder: The folder.
        manifest: What :func:`write_manifest` wrote.
        progress: Told how far it is.

    Returns:
        A sentence for each file that is missing or another.
    """
    lines = [line.partition("  ") for line in manifest.read_text(encoding="utf-8").splitlines()]
    files = [(folder / name, digits) for digits, _, name in lines]
    sizes = [path.stat().st_size if path.is_file() else None for path, _ in files]
    total, done = sum(size or 0 for size in sizes), 0
    problems = []
    for (path, digits), size in zip(files, sizes, strict=True):
        if size is None:
            problems.append(f"{path} is missing.")
        elif problem := check(path, f"sha256:{digits}"):
            problems.append(problem)
        done += size or 0
        progress(f"checking {folder.name}", done, total)
    return problems
