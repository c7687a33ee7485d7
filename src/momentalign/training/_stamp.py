"""What data lie at a path, in sixteen digits: a run of other data under the same name is another run."""

import hashlib
from functools import lru_cache
from pathlib import Path

from momentalign._datasets import DATASET_NAMES, is_image, walk_links


def data_stamp(dataset: str) -> str | None:
    """Sixteen digits for what a run's data set holds at the moment.

    Args:
        dataset: Name or path.

    Returns:
        The digits: of a file's content, of the names and sizes of the images in a folder. None for data sets that go by
        a name, which `momentalign data verify` checks, and where there is nothing.
    """
    path = Path(dataset).expanduser()
    if dataset in DATASET_NAMES or not path.exists():
        return None
    if path.is_file():
        about = path.stat()
        return _of_file(path, about.st_size, about.st_mtime_ns)
    digest = hashlib.sha256()
    for folder, files in sorted(walk_links(path)):
        for name in sorted(filter(is_image, files)):
            place = Path(folder, name)
            size = place.stat().st_size if place.exists() else -1  # a link to nothing
            digest.update(f"{place.relative_to(path).as_posix()}\0{size}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


@lru_cache(maxsize=16)
def _of_file(path: Path, size: int, changed: int) -> str:
    """Read once a process: a sweep asks for every run, and features may take gigabytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
