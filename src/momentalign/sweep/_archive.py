"""A run's folder as bytes, for machines that share no disk."""

import io
import shutil
import tarfile
import uuid
from pathlib import Path


def pack(folder: Path) -> bytes:
    """The files of a folder as a tar file.

    Args:
        folder: The folder.

    Returns:
        The tar file.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(folder, arcname=".")
    return content.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Put the files of a tar file where a folder is to be, all at once.

    Args:
        content: Of :func:`pack`.
        folder: Takes the place of what is there.
    """
    new = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.tmp")
    shutil.rmtree(new, ignore_errors=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(new, filter="data")
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
