"""Whether a data set is where it should be and what it should be."""

import warnings
from collections.abc import Iterator
from pathlib import Path

from momentalign._format import join_names
from momentalign.data._checksums import Progress, check, check_manifest, quiet
from momentalign.data._load import dataset_names, load_dataset
from momentalign.data._root import data_folder
from momentalign.data._source import Source
from momentalign.data._sources import find_source


def dataset_path(name: str, root: str | Path | None = None) -> Path:
    """Where a data set lies, or would.

    Args:
        name: Of a data set that has files.
        root: Data folder; see :func:`data_folder`.

    Returns:
        Its folder.
    """
    return data_folder(root) / find_source(name)[1].folder


def is_complete(name: str, root: str | Path | None = None) -> bool:
    """Whether everything that a data set cannot do without lies in its folder."""
    return not missing_entries(dataset_path(name, root), find_source(name)[1])


def verify(name: str, root: str | Path | None = None, progress: Progress | None = None) -> list[str]:
    """Compare a data set with the checksums that are known or were recorded when it was fetched, and count its rows.

    Args:
        name: Of a data set that has files.
        root: Data folder; see :func:`data_folder`.
        progress: Told how far it is.

    Returns:
        What is wrong, a sentence each; nothing if all is well.
    """
    progress = progress or quiet
    name, source = find_source(name)
    folder = dataset_path(name, root)
    if missing := missing_entries(folder, source):
        lacks = "does not exist" if not folder.exists() else f"lacks {join_names(missing)}"
        return [f"{folder} {lacks}. Run 'momentalign data fetch {name}'."]
    problems = [check(path, checksum, progress) for path, checksum in known_files(folder, source)]
    manifest = manifest_path(name, root)
    if manifest.exists():
        problems += check_manifest(folder, manifest, progress)
    return [*(problem for problem in problems if problem is not None), *_wrong_counts(name, root, source)]


def manifest_path(name: str, root: str | Path | None = None) -> Path:
    """The file beside a data set's folder that holds the checksums recorded when it was fetched."""
    return data_folder(root) / f"{find_source(name)[1].folder}.sha256"


def missing_entries(folder: Path, source: Source) -> list[str]:
    """What a folder lacks of a data set's contents."""
    return [entry for entry in source.contents if not _has(folder, entry)]


def _has(folder: Path, entry: str) -> bool:
    # MNIST's files may also lie there unpacked.
    return any((folder / name).exists() or (folder / name.removesuffix(".gz")).exists() for name in entry.split("|"))


def known_files(folder: Path, source: Source) -> Iterator[tuple[Path, str]]:
    """Files in a data set's folder whose checksum is published, and that checksum.

    Args:
        folder: The data set's folder.
        source: Where it comes from.

    Yields:
        Path and checksum of each; an archive whose content alone was kept has none.
    """
    for file in source.files:
        path = folder / Path(file.name).name
        if file.checksum and path.is_file():
            yield path, file.checksum
        elif file.checksum and path.suffix == ".gz" and path.with_suffix("").is_file():
            yield path.with_suffix(""), file.checksum.removeprefix("gunzip-")


def _wrong_counts(name: str, root: str | Path | None, source: Source) -> list[str]:
    """Where the numbers of rows are not the published ones."""
    if name not in dataset_names():  # MNIST's files are no data set of themselves
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about classes that a domain lacks, which is not the question here
            dataset = load_dataset(name, root=root)
    except (ValueError, OSError) as error:
        return [str(error)]
    problems = []
    for what, expected in source.rows.items():
        if what in dataset.names:
            found = sum(len(rows) for rows in dataset.domains[what].values())
        else:
            found = sum(len(splits[what]) for splits in dataset.domains.values())
        if found != expected:
            problems.append(f"{name} should have {expected} rows in {what}, but has {found}.")
    return problems
