"""Fetch a data set into the data folder (download, check, unpack, move), and verify it there."""

import contextlib
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from momentalign._datasets import DATASET_NAMES
from momentalign._format import join_first, join_names
from momentalign.data._archives import extract, is_archive
from momentalign.data._checksums import (
    DOWNLOADS,
    LOCK_FILE,
    LOCK_GUARD,
    ByteProgress,
    check_manifest,
    compare_checksum,
    no_progress,
    read_lock_file,
    record_download,
    write_manifest,
)
from momentalign.data._download import DownloadError, download
from momentalign.data._load import load_dataset
from momentalign.data._sources import Source, SourceFile, data_folder, dataset_path, find_source, manifest_path


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
        ValueError: A checksum does not match, or another process is fetching the same data set.
    """
    progress = progress or no_progress
    name, source = find_source(name)
    root = data_folder(root)
    folder = root / source.folder
    if not source.missing(folder):
        return folder
    given = [_given(Path(path), source) for path in archives]
    lock = root / DOWNLOADS / f"{name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0):
            try:
                if source.missing(folder):  # another process may have been faster
                    _fetch(name, source, root, given, progress, keep=keep)
            finally:
                _tidy(lock)
    except Timeout:
        raise ValueError(f"Another process is fetching {name} into {root}. Wait for it to finish.") from None
    return folder


def verify(name: str, root: str | Path | None = None, progress: ByteProgress | None = None) -> list[str]:
    """Compare a data set with its published and recorded checksums, and count its rows.

    Returns the problems, one sentence each. Arguments are those of :func:`fetch`.
    """
    progress = progress or no_progress
    name, source = find_source(name)
    folder = dataset_path(name, root)
    if missing := source.missing(folder):
        lacks = "does not exist" if not folder.exists() else f"lacks {join_names(missing)}"
        return [f"{folder} {lacks}. Run 'momentalign data fetch {name}'."]
    problems = [compare_checksum(path, checksum, progress) for path, checksum in _known_files(folder, source)]
    manifest = manifest_path(name, root)
    if manifest.exists():
        problems += check_manifest(folder, manifest, progress)
    return [*(problem for problem in problems if problem is not None), *_wrong_counts(name, root, source)]


def has_checksums(name: str, root: str | Path | None = None) -> bool:
    """Whether all files of a data set on disk have a recorded or published checksum."""
    source = find_source(name)[1]
    known = list(_known_files(dataset_path(name, root), source))
    return manifest_path(name, root).exists() or len(known) == len(source.files)


def _tidy(lock: Path) -> None:
    """Remove the lock, and the folder of downloads unless it holds any."""
    with contextlib.suppress(OSError):  # some systems keep a lock while it is held
        lock.unlink()
    with contextlib.suppress(OSError):
        if {path.name for path in lock.parent.iterdir()} <= {LOCK_GUARD}:
            shutil.rmtree(lock.parent)


def _fetch(
    name: str, source: Source, root: Path, given: list[tuple[SourceFile, Path]], progress: ByteProgress, *, keep: bool
) -> None:
    """Fetch what is missing; the caller holds the lock."""
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


def _downloaded(name: str, file: SourceFile, root: Path, downloads: Path, progress: ByteProgress) -> Path:
    """Path of a file of the source, downloaded if necessary, its checksum recorded."""
    target = downloads / file.base_name
    key = f"{name}/{target.name}"
    known = read_lock_file(root).get(key)
    expected = file.checksum or (f"sha256:{known['sha256']}" if known else None)
    if target.exists():  # from an interrupted attempt, or put there manually
        if expected and (problem := compare_checksum(target, expected, progress)):
            raise ValueError(f"{name}: {problem} Remove it and run 'momentalign data fetch {name}'.")
        if known is None:
            record_download(root, key, target, "put there manually", progress)
        return target
    try:
        url = download(file.urls, target, checksum=expected, progress=progress)
    except DownloadError as error:
        hint = (
            f"Download it manually ({find_source(name)[1].page}) and either save it as {target} and run the same "
            f"command again, or run 'momentalign data fetch {name} --from FILE'."
        )
        if known and not file.checksum:
            hint += (
                f" Its checksum was recorded on {known['date']} in {root / LOCK_FILE}; remove it to trust a new one."
            )
        raise DownloadError(f"{error}\n{hint}") from None
    record_download(root, key, target, url, progress)
    return target


def _given(path: Path, source: Source) -> tuple[SourceFile, Path]:
    """A local file, with the file of the source that it replaces: the one of its name, else the whole source."""
    path = path.expanduser()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"'--from' should name a file, but {path} {what}.")
    file = next((file for file in source.files if file.base_name == path.name), None)
    if file is not None and file.checksum and (problem := compare_checksum(path, file.checksum)):
        warnings.warn(f"{problem} It is used nevertheless, because you gave it.", stacklevel=3)
    if file is None and not is_archive(path):
        known = ", ".join(file.base_name for file in source.files)
        raise ValueError(f"{path} should be a zip or tar archive, or one of {known}, but is neither.")
    return file or SourceFile(path.name, ()), path


def _find(staging: Path, source: Source) -> Path:
    """The topmost folder with the data set's contents, which archives nest differently."""
    level = [staging]
    for _ in range(4):
        for candidate in level:
            if not source.missing(candidate):
                return candidate
        level = sorted(path for folder in level for path in folder.iterdir() if path.is_dir())
    expected = ", ".join(source.contents)
    present = join_first(sorted(path.name for path in staging.iterdir())) or "nothing"
    raise ValueError(f"The files should contain {expected} in one folder, but do not. Found: {present}.")


def _move(inside: Path, folder: Path) -> None:
    """Move a complete folder, or its entries that are missing, to the data folder."""
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


def _known_files(folder: Path, source: Source) -> Iterator[tuple[Path, str]]:
    """Files on disk with a published checksum, and that checksum; none for archives that were unpacked."""
    for file in source.files:
        path = folder / file.base_name
        if file.checksum and path.is_file():
            yield path, file.checksum
        elif file.checksum and path.suffix == ".gz" and path.with_suffix("").is_file():
            yield path.with_suffix(""), file.checksum.removeprefix("gunzip-")


def _wrong_counts(name: str, root: str | Path | None, source: Source) -> list[str]:
    """Domains or splits whose number of rows is not the published one."""
    if name not in DATASET_NAMES:  # MNIST's files alone are not a data set
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about classes that a domain lacks
            dataset = load_dataset(name, root=root)
    except (ValueError, OSError) as error:
        return [str(error)]
    problems = []
    for part, expected in source.rows.items():
        if part in dataset.names:
            count = sum(len(rows) for rows in dataset.domains[part].values())
        else:
            count = sum(len(splits[part]) for splits in dataset.domains.values())
        if count != expected:
            problems.append(f"{name} should have {expected} rows in {part}, but has {count}.")
    return problems
