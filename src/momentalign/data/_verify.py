"""Compare a data set on disk with its checksums and published sizes."""

import warnings
from collections.abc import Iterator
from pathlib import Path

from momentalign._datasets import DATASET_NAMES
from momentalign._format import join_names
from momentalign.data._checksums import ByteProgress, check_manifest, compare_checksum, no_progress
from momentalign.data._load import load_dataset
from momentalign.data._sources import Source, dataset_path, find_source, manifest_path


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
