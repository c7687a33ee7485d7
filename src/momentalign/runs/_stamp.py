"""A short hash of the data at a path: a run on other data under the same name is another run."""

import hashlib
from functools import lru_cache
from pathlib import Path

from momentalign._datasets import DATASET_NAMES, is_image, walk_links


def data_stamp(dataset: str) -> str | None:
    """Sixteen hexadecimal digits of a file's content, or of the names and sizes of the images in a folder.

    None for data sets with a name, which `momentalign data verify` checks, and for paths that do not exist.
    """
    path = Path(dataset).expanduser()
    if dataset in DATASET_NAMES or not path.exists():
        return None
    if path.is_file():
        stat = path.stat()
        return _of_file(path, stat.st_size, stat.st_mtime_ns)
    digest = hashlib.sha256()
    for folder, files in sorted(walk_links(path)):
        for name in sorted(filter(is_image, files)):
            file = Path(folder, name)
            size = file.stat().st_size if file.exists() else -1  # a broken link
            digest.update(f"{file.relative_to(path).as_posix()}\0{size}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


@lru_cache(maxsize=16)
def _of_file(path: Path, size: int, changed: int) -> str:
    """Read a file once a process: a sweep asks for every run, and features may take gigabytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
