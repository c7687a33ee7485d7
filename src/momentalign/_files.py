"""Files that appear whole or not at all."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path, *, beside: Path | None = None) -> Iterator[Path]:
    """Write a file under another name, which takes its place when the block is through.

    The other name is used by this call only, so that processes that write the same file never meet: the last one wins.
    When the block fails, what lay at `path` stays and nothing else is left; only a kill leaves the hidden other file.

    Args:
        path: The file.
        beside: Folder of the other name, on the same disk; by default that of `path`.

    Yields:
        Where to write.

    Raises:
        OSError: The disk is full, for instance. It names `path`, not the other file.
    """
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir()):
        yield path  # a device or a pipe takes what comes
        return
    path = path.resolve() if path.is_symlink() else path  # what a link names is replaced, not the link
    unfinished = (beside or path.parent) / f".{path.name}.{uuid.uuid4().hex[:16]}.tmp"
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        if error.filename != str(unfinished):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file at once: what is there under its name is whole.

    Args:
        path: Where to; its folder exists.
        content: Text is written as UTF-8, its line ends as they are.
    """
    with whole_file(path) as unfinished:
        try:
            unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:  # of a full disk the system does not say which file it was
            raise OSError(error.errno, error.strerror, str(unfinished)) from None
