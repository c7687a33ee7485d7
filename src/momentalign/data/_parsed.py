"""What was read from large text files once, kept in a form that is read faster."""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from momentalign._files import atomic_file

FOLDER = ".cache"
"""In the data folder, beside the data sets' own folders, which hold what was downloaded and nothing else."""
_FORMAT = 1
_KEY = b"momentalign"


def parsed_columns(
    cache: Path, sources: Sequence[Path], names: Sequence[str], parse: Callable[[], Sequence[Sequence[str]]]
) -> list[list[str]]:
    """Columns of text from a cache that is of these very files, or from the files, for which a cache is then written.

    A file is known by its name, size and time of change. Where nothing can be written or pyarrow is not installed, the
    files are read every time.

    Args:
        cache: A parquet file; its folder is made.
        sources: The files that are there to parse.
        names: Names of the columns.
        parse: Reads the files; gives the columns.

    Returns:
        The columns.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        return [list(column) for column in parse()]
    key = json.dumps({"format": _FORMAT, "columns": list(names), "files": [_identity(path) for path in sources]})
    found = _read(pyarrow, parquet, cache, key, names)
    if found is not None:
        return found
    columns = [list(column) for column in parse()]
    # A folder of somebody else's, a full disk, text that is no proper Unicode: it works without.
    with contextlib.suppress(OSError, UnicodeError, pyarrow.ArrowException):
        table = pyarrow.table(dict(zip(names, columns, strict=True))).replace_schema_metadata({_KEY: key.encode()})
        cache.parent.mkdir(exist_ok=True)
        with atomic_file(cache) as unfinished:
            parquet.write_table(table, unfinished, compression="zstd")
    return columns


def _identity(path: Path) -> list[str | int]:
    about = path.stat()
    return [path.name, about.st_size, about.st_mtime_ns]


def _read(pyarrow: Any, parquet: Any, cache: Path, key: str, names: Sequence[str]) -> list[list[str]] | None:
    try:
        if (parquet.read_schema(cache).metadata or {}).get(_KEY) != key.encode():
            return None
        table = parquet.read_table(cache)
        return [table.column(name).to_pylist() for name in names]
    except (OSError, pyarrow.ArrowException, KeyError):  # none yet, or one that something broke
        return None
