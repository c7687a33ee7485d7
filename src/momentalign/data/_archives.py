"""Archives unpacked so that nothing can leave the folder they are unpacked into."""

import errno
import lzma
import shutil
import stat
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, NamedTuple

from momentalign.data._checksums import Progress, quiet

# RuntimeError is what zipfile raises for passwords and for methods that it does not know.
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError)


class _Member(NamedTuple):
    name: str
    content: IO[bytes] | None  # None for anything but a plain file
    is_link_or_device: bool
    position: int  # bytes of the archive read so far


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or tar archive, by its content."""
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def extract(archive: Path, folder: Path, progress: Progress = quiet) -> int:
    """Unpack a zip, tar or compressed tar archive into a folder.

    Plain files and folders only, with the permissions of new files. Links and devices are left out, with a warning, so
    nothing can be written through one. What macOS adds for itself is left out too.

    Args:
        archive: The archive.
        folder: Where its members go; made if necessary.
        progress: Told how far it is.

    Returns:
        How many files were written.

    Raises:
        ValueError: A member's path leads out of the folder, or the archive is broken. What came before it is written.
        OSError: The disk is full.
    """
    if not archive.is_file():
        raise FileNotFoundError(f"{archive} does not exist.")
    if not is_archive(archive):
        raise ValueError(f"{archive} should be a zip or tar archive, but is neither.")
    total = archive.stat().st_size
    left_out: list[str] = []
    count = 0
    try:
        for member in _members(archive):
            if not _stays_inside(member.name):
                raise ValueError(
                    f"{archive} has a member that leads out of its folder: {member.name!r}. Do not trust it."
                )
            progress(f"unpacking {archive.name}", min(member.position, total), total)
            if member.is_link_or_device:
                left_out.append(member.name)
            elif member.content is not None and not _is_litter(member.name):
                _write(member.content, folder.joinpath(*PurePosixPath(member.name).parts))
                count += 1
    except _BROKEN as error:
        raise ValueError(f"{archive} is broken ({type(error).__name__}: {error}). Fetch it again.") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ValueError(f"{archive} has a file and a folder of one name: {error.filename}.") from None
    except OSError as error:
        if error.errno is None:  # gzip and bz2 say so of what they cannot unpack
            raise ValueError(f"{archive} is broken ({type(error).__name__}: {error}). Fetch it again.") from None
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = shutil.disk_usage(folder).free / 1e9
        raise OSError(
            f"No space left in {folder} to unpack {archive.name} ({free:.2f} GB free). Make room and run the same "
            "command again."
        ) from None
    if left_out:
        shown = ", ".join(left_out[:5]) + (", …" if len(left_out) > 5 else "")
        warnings.warn(f"{archive.name}: {len(left_out)} links or devices were left out: {shown}.", stacklevel=2)
    return count


def _members(archive: Path) -> Iterator[_Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                odd = kind not in (0, stat.S_IFREG, stat.S_IFDIR)
                if info.is_dir() or odd:
                    yield _Member(info.filename, None, odd, info.header_offset)
                else:
                    with zipped.open(info) as content:
                        yield _Member(info.filename, content, False, info.header_offset)
        return
    with archive.open("rb") as raw, tarfile.open(fileobj=raw) as tar:
        for entry in tar:
            odd = not (entry.isreg() or entry.isdir())
            yield _Member(entry.name, tar.extractfile(entry) if entry.isreg() else None, odd, raw.tell())
        while tar.fileobj is not None and tar.fileobj.read(1 << 20):
            pass  # a compressed file's checksum lies behind the last member


def _write(content: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


def _stays_inside(name: str) -> bool:
    """Whether a member's path is relative and never goes up, read as either system would."""
    windows = PureWindowsPath(name)
    return not (windows.drive or windows.root or name.startswith(("/", "\\")) or ".." in windows.parts) and bool(name)


def _is_litter(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return "__MACOSX" in parts or parts[-1] == ".DS_Store" or parts[-1].startswith("._")
