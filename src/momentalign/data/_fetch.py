"""Data sets into the data folder: download, check, unpack, put in place."""

import contextlib
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from momentalign.data._archives import extract, is_archive
from momentalign.data._checksums import Progress, check, quiet, write_manifest
from momentalign.data._download import NoAnswerError, download
from momentalign.data._lock import DOWNLOADS, LOCK, ONE_AT_A_TIME, record, recorded
from momentalign.data._root import data_folder
from momentalign.data._source import Source, SourceFile
from momentalign.data._sources import find_source
from momentalign.data._verify import manifest_path, missing_entries


def fetch(
    name: str,
    root: str | Path | None = None,
    progress: Progress | None = None,
    *,
    archives: Sequence[str | Path] = (),
    keep: bool = False,
) -> Path:
    """Download a data set, check it and put it where :func:`load_dataset` looks for it.

    Interrupted, it goes on where it stopped. The data set's folder appears when all of it is there. One process fetches
    a data set at a time.

    Args:
        name: Of a data set that has files.
        root: Data folder; see :func:`data_folder`.
        progress: Told what is being done, how many bytes of it are done and how many there are.
        archives: Files that you have already; they stay where they are. One that has the name of a file of the source
            stands for it, and what is missing is downloaded. An archive of another name stands for the whole source.
        keep: Keep the downloaded archives after unpacking.

    Returns:
        The data set's folder.

    Raises:
        NoAnswerError: A file could not be downloaded; the message says where to put it by hand.
        ValueError: A file is not what it should be, or another process fetches the same.
    """
    progress = progress or quiet
    name, source = find_source(name)
    root = data_folder(root)
    folder = root / source.folder
    if not missing_entries(folder, source):
        return folder
    given = [_given(Path(path), source) for path in archives]
    lock = root / DOWNLOADS / f"{name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            try:
                if missing_entries(folder, source):  # another process may have been quicker
                    _fetch(name, source, root, given, progress, keep=keep)
            finally:
                _tidy(lock)
    except Timeout:
        raise ValueError(f"Another process fetches {name} into {root}. Wait for it to end.") from None
    return folder


def _tidy(lock: Path) -> None:
    """Remove the lock, and the folder of downloads unless some are left there, or the place for one by hand."""
    with contextlib.suppress(OSError):  # some systems keep a lock while it is held
        lock.unlink()
    with contextlib.suppress(OSError):
        if {path.name for path in lock.parent.iterdir()} <= {ONE_AT_A_TIME}:
            shutil.rmtree(lock.parent)


def _fetch(
    name: str, source: Source, root: Path, given: list[tuple[SourceFile, Path]], progress: Progress, *, keep: bool
) -> None:
    """Bring in what is missing; the caller has the lock."""
    folder = root / source.folder
    downloads = root / DOWNLOADS / name
    files = list(given)
    if all(file in source.files for file, _ in files):
        wanted = [file for file in source.files if file not in [own for own, _ in given]]
        files += [(file, _downloaded(name, file, root, downloads, progress)) for file in wanted]
    staging = root / DOWNLOADS / f"{name}.unpacking"
    _remove(staging)
    try:
        staging.mkdir(parents=True)
        for file, path in files:
            if is_archive(path):
                extract(path, staging, progress)
            else:
                (staging / file.name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, staging / file.name)
        if source.prepare is not None:
            source.prepare(staging)
        inside = _find(staging, source)
        write_manifest(inside, manifest_path(name, root), progress)
        _move(inside, folder)
    finally:
        _remove(staging)
    if not keep:
        _remove(downloads)


def _downloaded(name: str, file: SourceFile, root: Path, downloads: Path, progress: Progress) -> Path:
    """The file, downloaded unless it is there already, and its checksum recorded."""
    target = downloads / Path(file.name).name
    key = f"{name}/{target.name}"
    known = recorded(root).get(key)
    expected = file.checksum or (f"sha256:{known['sha256']}" if known else None)
    if target.exists():  # from an interrupted attempt, or put there by hand
        if expected and (problem := check(target, expected, progress)):
            raise ValueError(f"{name}: {problem} Remove it and run 'momentalign data fetch {name}'.")
        if known is None:
            record(root, key, target, "put there by hand", progress)
        return target
    try:
        url = download(file.urls, target, checksum=expected, progress=progress)
    except NoAnswerError as error:
        hint = (
            f"Get it by hand ({find_source(name)[1].page}) and either put it at {target} and run the same command "
            f"again, or run 'momentalign data fetch {name} --from FILE'."
        )
        if known and not file.checksum:
            hint += f" Its checksum was recorded on {known['date']} in {root / LOCK}; remove its entry to trust anew."
        raise NoAnswerError(f"{error}\n{hint}") from None
    record(root, key, target, url, progress)
    return target


def _given(path: Path, source: Source) -> tuple[SourceFile, Path]:
    """A file that the user has: the one of the source that has its name, or any archive."""
    path = path.expanduser()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"'--from' should name a file, but {path} {what}.")
    file = next((file for file in source.files if Path(file.name).name == path.name), None)
    if file is not None and file.checksum and (problem := check(path, file.checksum)):
        warnings.warn(f"{problem} It is taken all the same, because you gave it.", stacklevel=3)
    if file is None and not is_archive(path):
        known = ", ".join(Path(file.name).name for file in source.files)
        raise ValueError(f"{path} should be a zip or tar archive, or one of {known}, but is neither.")
    return file or SourceFile(path.name, ()), path


def _find(staging: Path, source: Source) -> Path:
    """The uppermost folder that has the data set's contents; archives differ in what they wrap it in."""
    level = [staging]
    for _ in range(4):
        for candidate in level:
            if not missing_entries(candidate, source):
                return candidate
        level = sorted(path for folder in level for path in folder.iterdir() if path.is_dir())
    expected = ", ".join(source.contents)
    found = ", ".join(sorted(path.name for path in staging.iterdir())[:8]) or "nothing"
    raise ValueError(f"The files should hold {expected} in one folder, but do not. Found: {found}.")


def _move(inside: Path, folder: Path) -> None:
    """Put a finished folder in its place, or what is missing of it."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        inside.replace(folder)
        return
    for entry in sorted(inside.iterdir()):
        if not (folder / entry.name).exists():
            entry.replace(folder / entry.name)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
