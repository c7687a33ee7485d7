"""Data sets of image folders `root/domain/class/file`."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from momentalign._datasets import is_folder, is_image, walk_links
from momentalign._format import join_first, pluralize
from momentalign.data._dataset import DomainDataset, Split, split_in_out
from momentalign.data._items import ImageFiles

_DUPLICATES = "domain_net_duplicates.txt"
"""Files of DomainNet that appear twice, one path a line; skipped, as in DomainBed."""


def read_image_folder(
    folder: Path, *, name: str, domains: Sequence[str] | None = None, trial: int = 0, holdout: float = 0.2
) -> DomainDataset:
    """Make a data set of a folder `root/domain/class/file`.

    Classes are the union of the domains' folders. Domains, classes and files are sorted by name as in DomainBed, so
    that a trial holds out the same files. Hidden files and files without an image suffix are ignored. Files belong to
    the folder of a class at any depth.

    Args:
        folder: The root.
        name: Of the data set.
        domains: Folders that are domains, in order; all by default.
        trial: The trial's seed, of the split.
        holdout: Share of each domain in its "out" split.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} should be a folder of images, but does not exist.")
    subfolders = _subfolders(folder)
    if missing := [domain for domain in domains or () if domain not in subfolders]:
        raise ValueError(
            f"{folder} should have the folders {', '.join(domains or ())}, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Found: {', '.join(subfolders) or 'no folders'}."
        )
    domains = subfolders if domains is None else domains
    if not domains:
        raise ValueError(_wrong_structure(folder, folder))
    # Class -> paths relative to the folder, by domain.
    files = {domain: _files_by_class(folder, domain) for domain in domains}
    classes = sorted({label for by_class in files.values() for label in by_class})
    skipped = _duplicates(folder) if name == "domain-net" else frozenset()
    rows = {}
    for domain, by_class in files.items():
        names: list[str] = []
        targets: list[int] = []
        for k, label in enumerate(classes):
            kept = [file for file in by_class.get(label, ()) if file not in skipped]
            names += kept
            targets += [k] * len(kept)
        rows[domain] = Split(ImageFiles.from_names(names, folder), torch.tensor(targets, dtype=torch.long))
    return DomainDataset(name, len(classes), split_in_out(rows, trial, fraction=holdout), classes)


def without_bad_files(dataset: DomainDataset) -> DomainDataset:
    """Drop images that cannot be decoded, with a warning that names them.

    The split of the other images does not change. A data set without image files is returned unchanged.
    """
    bad: list[str] = []

    def drop_bad(rows: Split) -> Split:
        if not isinstance(rows.inputs, ImageFiles):
            return rows
        names, kept = rows.inputs.names, rows.inputs.readable()
        bad.extend(names[index] for index in sorted(set(range(len(names))) - set(kept.tolist())))
        return rows.rows(kept)

    cleaned = dataset.map_splits(drop_bad)
    if not bad:
        return dataset
    warnings.warn(
        f"{dataset.name}: {pluralize(len(bad), 'unreadable file')} skipped: {join_first(bad, 10)}.", stacklevel=2
    )
    return cleaned


def _files_by_class(folder: Path, domain: str) -> dict[str, list[str]]:
    """Image paths of each class of a domain, relative to the folder; classes without images are dropped."""
    if stray := sorted(path for path in (folder / domain).iterdir() if is_image(path.name) and path.is_file()):
        if not _subfolders(folder / domain):
            raise ValueError(_wrong_structure(folder, stray[0]))
        warnings.warn(
            f"{folder / domain}: {pluralize(len(stray), 'image')} outside the folders of classes skipped, for instance "
            f"{stray[0].name}.",
            stacklevel=4,
        )
    files = {}
    for label in _subfolders(folder / domain):
        # Links are followed and folders sorted as torchvision's ImageFolder does, whose order DomainBed splits.
        images = []
        for where, names in sorted(walk_links(folder / domain / label)):
            inside = Path(where).relative_to(folder).as_posix()
            images += [f"{inside}/{name}" for name in sorted(names) if is_image(name)]
        if images:
            files[label] = images
    if not files:
        raise ValueError(_wrong_structure(folder, folder / domain))
    return files


def _subfolders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if is_folder(entry) and not entry.name.startswith("."))


def _duplicates(folder: Path) -> frozenset[str]:
    listed = folder / _DUPLICATES
    return frozenset(listed.read_text().split("\n")) if listed.exists() else frozenset()


def _wrong_structure(folder: Path, where: Path) -> str:
    expected = f"{folder} should have the structure domain/class/image, for instance {folder.name}/photo/dog/1.jpg"
    if where.is_file():
        return f"{expected}, but {where} is an image where the folder of a class should be."
    inside = sorted(entry.name for entry in os.scandir(where) if not entry.name.startswith("."))
    problem = f"{where} has no folders" if where == folder else f"no folder in {where} has images"
    return f"{expected}, but {problem}. Found there: {join_first(inside) or 'nothing'}."
