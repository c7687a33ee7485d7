"""What a source of a data set is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class SourceFile:
    """A file to download.

    Args:
        name: What it is called; a path if it is no archive and belongs into a folder beside what archives hold.
        urls: Addresses of the same file.
        checksum: Algorithm and digits, if known; "a|b" is either, where a mirror packs the same content differently.
    """

    name: str
    urls: tuple[str, ...]
    checksum: str | None = None


@dataclass(frozen=True)
class Source:
    """A data set's files.

    Args:
        folder: Where it lies in the data folder.
        contents: Files and folders in it without which it is not complete; "a|b" is either.
        files: What to download.
        gigabytes: About how much that is.
        page: Where a person finds it.
        terms: What is known of its licence.
        rows: Published numbers of rows, by domain or by split.
        prepare: Rearranges what the archives hold.
    """

    folder: str
    contents: tuple[str, ...]
    files: tuple[SourceFile, ...]
    gigabytes: float
    page: str
    terms: str
    rows: Mapping[str, int] = field(default_factory=dict)
    prepare: Callable[[Path], None] | None = None
