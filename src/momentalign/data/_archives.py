"""Unpack archives so that nothing is written outside the target folder."""

import errno
import lzma
import shutil
import stat
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple, Self

from momentalign._files import is_disk_full
from momentalign._format import join_first
from momentalign.data._checksums import ByteProgress, no_progress

# zipfile raises RuntimeError for passwords and unknown compression methods.
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError)


class _StrictHeader(tarfile.TarInfo):
    """A header of a tar archive whose damage is an error; tarfile takes it for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        """Read the next header; two blocks of zeros are the end."""
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # not in the stubs
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error}, at byte {tarfile_.offset}") from None


class _Member(NamedTuple):
    name: str
    extract: Callable[..., Any] | None  # None for anything but a plain file
    is_link_or_device: bool
    size: int  # bytes to write
    position: int  # bytes of the archive read so far


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or tar archive, intact or broken, by its content."""
    try:
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except _BROKEN:
        return True


def extract(archive: Path, folder: Path, progress: ByteProgress = no_progress) -> int:
    """Unpack a zip, tar or compressed tar archive into a folder; return the number of files written.

    Only plain files and folders are written, with default permissions. Links and devices are skipped with a warning, so
    that nothing can be written through one; so are the extra files of macOS, without a warning.

    Raises:
        ValueError: A member's path leads out of the folder, or the archive is broken. Earlier members are written.
        OSError: The disk is full.
    """
    if not archive.is_file():
        raise FileNotFoundError(f"{archive} does not exist.")
    if not is_archive(archive):
        raise ValueError(f"{archive} should be a zip or tar archive, but is neither.")
    folder.mkdir(parents=True, exist_ok=True)
    total = archive.stat().st_size
    skipped: list[str] = []
    count = 0
    try:
        for member in _members(archive):
            if not _stays_inside(member.name):
                raise ValueError(
                    f"{archive} has a member that leads out of its folder: {member.name!r}. Do not trust it."
                )
            progress(f"unpacking {archive.name}", min(member.position, total), total)
            if member.is_link_or_device:
                skipped.append(member.name)
            elif member.extract is not None and not _is_macos_extra(member.name):
                if member.size > shutil.disk_usage(folder).free:
                    raise OSError(errno.ENOSPC, "No space left on device", str(folder))
                member.extract(path=folder)
                count += 1
    except _BROKEN as error:
        raise _broken(archive, error) from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ValueError(f"{archive} has a file and a folder of one name: {error.filename}.") from None
    except OSError as error:
        if error.errno is None:  # gzip and bz2 raise it for content that they cannot unpack
            raise _broken(archive, error) from None
        if not is_disk_full(error):
            raise
        free = shutil.disk_usage(folder).free / 1e9
        raise OSError(
            f"No space left in {folder} to unpack {archive.name} ({free:.2f} GB free). Free some space and run the "
            "same command again."
        ) from None
    if skipped:
        warnings.warn(
            f"{archive.name}: skipped {len(skipped)} links or devices: {join_first(skipped, 5)}.", stacklevel=2
        )
    return count


def _members(archive: Path) -> Iterator[_Member]:
    write: Callable[..., Any] | None
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                special = stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR)
                write = None if info.is_dir() or special else partial(zipped.extract, info)
                yield _Member(info.filename, write, special, info.file_size, info.header_offset)
        return
    with archive.open("rb") as raw, tarfile.open(fileobj=raw, tarinfo=_StrictHeader) as tar:
        for entry in tar:
            write = partial(tar.extract, entry, set_attrs=False, filter="data") if entry.isreg() else None
            yield _Member(entry.name, write, not (entry.isreg() or entry.isdir()), entry.size, raw.tell())
        while tar.fileobj is not None and tar.fileobj.read(1 << 20):
            pass  # a compressed file's checksum comes after the last member


def _broken(archive: Path, error: Exception) -> ValueError:
    return ValueError(f"{archive} is broken ({type(error).__name__}: {error}). Fetch it again.")


def _stays_inside(name: str) -> bool:
    """Whether a member's path is relative and never goes up, on any operating system."""
    windows = PureWindowsPath(name)
    return not (windows.drive or windows.root or name.startswith(("/", "\\")) or ".." in windows.parts) and bool(name)


def _is_macos_extra(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return "__MACOSX" in parts or parts[-1] == ".DS_Store" or parts[-1].startswith("._")
