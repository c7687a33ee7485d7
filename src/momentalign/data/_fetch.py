"""Fetch a data set into the data folder: download, compare checksums, unpack, rename."""

import contextlib
import gzip
import http.client
import lzma
import shutil
import ssl
import tarfile
import time
import urllib.error
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from momentalign._files import atomic_write, is_disk_full
from momentalign._format import join_first
from momentalign.data._sources import Source, SourceFile, checksum_list, data_folder, dataset_path, find_source
from momentalign.data._verify import ByteProgress, digest, mismatch, no_progress

RETRY_SECONDS = 2.0
_ATTEMPTS = 4
_TIMEOUT_SECONDS = 30
_BLOCK_BYTES = 1 << 20
# zipfile raises RuntimeError for passwords and unknown compression methods.
_BROKEN = (shutil.ReadError, tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError,
           EOFError, RuntimeError)  # fmt: skip


class DownloadError(OSError):
    """No mirror gave the file."""


def fetch(
    name: str,
    root: str | Path | None = None,
    progress: ByteProgress | None = None,
    *,
    archives: Sequence[str | Path] = (),
    keep: bool = False,
) -> Path:
    """Download a data set, check it and unpack it to the folder where :func:`load_dataset` looks for it.

    An interrupted download is resumed by the next call. The data set's folder appears when it is complete. Only one
    process fetches a data set at a time.

    Args:
        name: Of a data set that has files.
        root: Data folder; see :func:`data_folder`.
        progress: Called with the action, the bytes done and the total.
        archives: Local files to use instead of downloads; they are not changed. A file with the name of one of the
            source's files replaces that one, an archive of another name the whole source.
        keep: Keep the downloaded archives after unpacking.

    Raises:
        DownloadError: A file could not be downloaded; the message says where to put it manually.
        ValueError: An archive is broken or of something else, or another process is fetching the same data set.
    """
    name, source = find_source(name)
    folder = dataset_path(name, root)
    if not source.missing(folder):
        return folder
    given = _given([Path(path).expanduser() for path in archives], source)
    downloads = data_folder(root) / ".downloads" / name
    downloads.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(downloads / "lock", timeout=0):
            if source.missing(folder):  # another process may have been faster
                _fetch(name, source, folder, downloads, given, progress or no_progress)
                if not keep:
                    shutil.rmtree(downloads, ignore_errors=True)
    except Timeout:
        raise ValueError(f"Another process is fetching {name} into {folder.parent}. Wait for it to finish.") from None
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise OSError(
            f"No space left in {folder.parent}. Free some, or choose another folder with '--root' or MOMENTALIGN_DATA, "
            "and run the same command again: it resumes the download."
        ) from None
    with contextlib.suppress(OSError):  # other downloads are in it
        downloads.parent.rmdir()
    return folder


def _given(paths: Sequence[Path], source: Source) -> dict[SourceFile, Path]:
    """Local files by the file of the source that each replaces: the one of its name, else the whole source."""
    known = {file.base_name: file for file in source.files}
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"'--from' should name a file, but {path} is none.")
        if path.name not in known and not _is_archive(path):
            names = ", ".join(known)
            raise ValueError(f"{path} should be a zip or tar archive by its name, or one of {names}, but is neither.")
        if path.name in known and (problem := mismatch(path, known[path.name].checksum)):
            warnings.warn(f"{problem} It is used nevertheless, because you gave it.", stacklevel=3)
    return {known.get(path.name, SourceFile(path.name, ())): path for path in paths}


def _fetch(
    name: str, source: Source, folder: Path, downloads: Path, given: dict[SourceFile, Path], progress: ByteProgress
) -> None:
    """Fetch what is missing; the caller holds the lock."""
    paths = dict(given)
    if given.keys() <= set(source.files):
        for file in source.files:
            paths.setdefault(file, downloads / file.base_name)
            if file not in given:
                _download(name, source, file, paths[file], progress)
    staging = downloads / "unpacked"
    shutil.rmtree(staging, ignore_errors=True)  # of a killed process
    try:
        for file, path in paths.items():
            progress(f"unpacking {path.name}", 0, None)
            (staging / file.name).parent.mkdir(parents=True, exist_ok=True)
            if _is_archive(path):
                _unpack(path, staging)
            else:
                shutil.copyfile(path, staging / file.name)
        if source.prepare is not None:
            source.prepare(staging)
        inside = _find(staging, source)
        files = sorted(path for path in inside.rglob("*") if path.is_file())
        lines = [f"{digest(path, 'sha256')}  {path.relative_to(inside).as_posix()}\n" for path in files]
        atomic_write(checksum_list(folder), "".join(lines))
        if not folder.exists():
            inside.rename(folder)
        else:  # what is missing
            for entry in inside.iterdir():
                if not (folder / entry.name).exists():
                    entry.rename(folder / entry.name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _download(name: str, source: Source, file: SourceFile, target: Path, progress: ByteProgress) -> None:
    """Download a file from the first of its mirrors that gives it, unless it is there already."""
    if target.exists():  # from an interrupted attempt, or put there manually
        if problem := mismatch(target, file.checksum):
            raise ValueError(f"{name}: {problem} Remove it and run 'momentalign data fetch {name}'.")
        return
    part = target.with_name(f"{target.name}.part")
    if file.checksum is None:  # nothing would tell whether two parts belong together
        part.unlink(missing_ok=True)
    failures = []
    for url in file.urls:
        resumed = part.exists()
        failure = _get(url, part, file.checksum, progress)
        if failure and resumed and not part.exists():  # it was a part of another file: once more from the start
            failure = _get(url, part, file.checksum, progress)
        if failure is None:
            part.rename(target)
            return
        failures.append(f"  {url}: {failure}")
    raise DownloadError(
        "\n".join([f"{target.name} could not be downloaded.", *failures])
        + f"\nDownload it manually ({source.page}) and either save it as {target} and run the same command again, or "
        f"run 'momentalign data fetch {name} --from FILE'."
    )


def _get(url: str, part: Path, checksum: str | None, progress: ByteProgress) -> str | None:
    """Append the rest of a file to `part`, in several attempts; returns why it failed.

    A file of another checksum is removed.
    """
    reason = ""
    for attempt in range(_ATTEMPTS):
        time.sleep(RETRY_SECONDS * attempt)
        have = part.stat().st_size if part.exists() else 0
        headers = {"User-Agent": "momentalign", "Accept-Encoding": "identity", "Range": f"bytes={have}-"}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_SECONDS) as got:
                if "html" in got.headers.get_content_type():
                    return "answered with a web page instead of the file"
                have = have if got.status == 206 else 0
                length = got.headers.get("Content-Length")
                total = have + int(length) if length else None
                with part.open("ab" if have else "wb") as file:
                    while block := got.read(_BLOCK_BYTES):
                        have += file.write(block)
                        progress(part.stem, have, total)
            if total is None or have >= total:
                if problem := mismatch(part, checksum):
                    part.unlink()
                return problem
            reason = f"the connection broke after {have} of {total} bytes"
        except urllib.error.HTTPError as error:
            reason = f"HTTP {error.code} {error.reason}"
            if error.code == 416:  # nothing after what we have: it is not a part of this file, or empty
                part.unlink(missing_ok=True)
            elif error.code != 429 and error.code < 500:
                return reason
        except urllib.error.URLError as error:
            return str(error.reason)
        except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
            reason = str(error) or type(error).__name__
    return reason


def _is_archive(path: Path) -> bool:
    return path.name.lower().endswith(tuple(end for _, ends, _ in shutil.get_unpack_formats() for end in ends))


def _unpack(archive: Path, folder: Path) -> None:
    try:
        if archive.suffix.lower() == ".zip":  # which never leaves the folder
            shutil.unpack_archive(archive, folder)
        else:
            if archive.suffix.lower() in (".gz", ".tgz"):
                digest(archive, "gunzip-md5")  # to the end and its checksum: tarfile stops where it sees no header
            shutil.unpack_archive(archive, folder, filter="data")
    except _BROKEN as error:
        raise ValueError(f"{archive} cannot be unpacked ({type(error).__name__}: {error}). Fetch it again.") from None


def _find(staging: Path, source: Source) -> Path:
    """The topmost folder with the data set's contents, which archives nest differently."""
    level = [staging]
    for _ in range(4):
        for candidate in level:
            if not source.missing(candidate):
                return candidate
        level = sorted(path for folder in level for path in folder.iterdir() if path.is_dir())
    present = join_first(sorted(path.name for path in staging.iterdir())) or "nothing"
    raise ValueError(
        f"The files should contain {', '.join(source.contents)} in one folder, but do not. Found: {present}."
    )
