"""Names of the built-in data sets and of splits, and the walk through a folder of images, without torch."""

import os
from collections.abc import Iterator
from pathlib import Path

DATASET_NAMES = (
    "colored-digits",
    "rotated-digits",
    "colored-mnist",
    "rotated-mnist",
    "vlcs",
    "pacs",
    "office-home",
    "terra-incognita",
    "domain-net",
    "waterbirds",
    "celeba",
    "multinli",
)
EMBEDDED = ("colored-digits", "rotated-digits")
"""Data sets without files."""
SPLIT_NAMES = ("train", "val", "test")
"""Splits of data with groups, in the order of their numbers 0, 1, 2."""
GROUPS_FILE = "groups.csv"
"""Lists the images of a folder with groups."""
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def is_image(name: str) -> bool:
    """Whether a file counts as an image, by its name: known suffix and not hidden."""
    return name.lower().endswith(_IMAGE_SUFFIXES) and not name.startswith(".")


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether a directory entry is a folder; False for a link to itself."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def walk_links(folder: Path, parents: frozenset[str] = frozenset()) -> Iterator[tuple[str, list[str]]]:
    """Walk a folder as `os.walk` does, following links but not into cycles: (path, names of files) of each folder."""
    real = os.path.realpath(folder)
    if any(f"{parent}{os.sep}".startswith(f"{real}{os.sep}") for parent in parents):
        return
    folders, files = list[str](), list[str]()
    for entry in os.scandir(folder):
        (folders if is_folder(entry) else files).append(entry.name)
    yield str(folder), files
    for name in folders:
        yield from walk_links(folder / name, parents | {real})
