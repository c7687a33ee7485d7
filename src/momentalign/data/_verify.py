"""Compare data sets on disk with published checksums, with those of `fetch`, and with published numbers of rows."""

import gzip
import hashlib
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from momentalign._datasets import DATASET_NAMES
from momentalign._format import join_names
from momentalign.data._load import load_dataset
from momentalign.data._sources import Source, checksum_list, dataset_path, find_source

ByteProgress = Callable[[str, int, int | None], None]
"""Called with the action, the number of bytes done, and the total if known."""


def verify(name: str, root: str | Path | None = None, progress: ByteProgress | None = None) -> list[str]:
    """Compare a data set with its published checksums and those of :func:`fetch`, and count its rows.

    Returns the problems, one sentence each. Arguments are those of :func:`fetch`.
    """
    name, source = find_source(name)
    folder = dataset_path(name, root)
    if missing := source.missing(folder):
        lacks = "does not exist" if not folder.exists() else f"lacks {join_names(missing)}"
        return [f"{folder} {lacks}. Run 'momentalign data fetch {name}'."]
    checksums = [*_published(folder, source), *_listed(folder)]
    total, done = sum(path.stat().st_size for path, _ in checksums if path.is_file()), 0
    problems = []
    for path, checksum in checksums:
        problems += [problem] if (problem := mismatch(path, checksum)) else []
        done += path.stat().st_size if path.is_file() else 0
        (progress or no_progress)(f"checking {name}", done, total)
    return [*problems, *_wrong_counts(name, root, source)]


def digest(path: Path, algorithm: str) -> str:
    """Hexadecimal checksum of a file; after "gunzip-" of a gzip file's content, which mirrors may pack differently."""
    with gzip.open(path) if algorithm.startswith("gunzip-") else path.open("rb") as file:
        return hashlib.file_digest(file, algorithm.removeprefix("gunzip-")).hexdigest()


def mismatch(path: Path, expected: str | None) -> str | None:
    """What is wrong with a file that should have one of the checksums "sha256:1f3a…|md5:6bbc…"; None if nothing is."""
    if not path.is_file():
        return f"{path} is missing."
    try:
        found = [f"{kind}:{digest(path, kind)}" for kind in re.findall(r"([\w-]+):", expected or "")]
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        return f"{path} should be a gzip file, but cannot be unpacked: {error}."
    if expected is None or not set(found).isdisjoint(expected.split("|")):
        return None
    return f"The checksum of {path} is {'|'.join(found)}, expected {expected}."


def _published(folder: Path, source: Source) -> Iterator[tuple[Path, str]]:
    """Files on disk with a published checksum, and that checksum; none for archives that were unpacked."""
    for file in source.files:
        path = folder / file.base_name
        if file.checksum and path.is_file():
            yield path, file.checksum
        elif file.checksum and path.suffix == ".gz" and path.with_suffix("").is_file():
            yield path.with_suffix(""), file.checksum.removeprefix("gunzip-")


def _listed(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files and checksums that `fetch` listed, in the format of sha256sum."""
    if checksum_list(folder).exists():
        for line in checksum_list(folder).read_text(encoding="utf-8").splitlines():
            digits, _, name = line.partition("  ")
            yield folder / name, f"sha256:{digits}"


def _wrong_counts(name: str, root: str | Path | None, source: Source) -> list[str]:
    """Domains or splits whose number of rows is not the published one."""
    if name not in DATASET_NAMES:  # MNIST's files alone are not a data set
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about classes that a domain lacks
            data = load_dataset(name, root=root)
    except (ValueError, OSError) as error:
        return [str(error)]
    counts: dict[str, int] = {}
    for domain, splits in data.domains.items():
        for split, rows in splits.items():
            for part in (domain, split):
                counts[part] = counts.get(part, 0) + len(rows)
    return [
        f"{name} should have {expected} rows in {part}, but has {counts.get(part, 0)}."
        for part, expected in source.rows.items()
        if counts.get(part, 0) != expected
    ]


def no_progress(action: str, done: int, total: int | None) -> None:
    """Ignore progress."""
