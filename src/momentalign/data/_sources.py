"""Sources of the data sets: files, mirrors and checksums from `sources.toml`, and where they go in the data folder."""

import os
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from momentalign._datasets import DATASET_NAMES, EMBEDDED
from momentalign._format import suggest
from momentalign._json import read_json

_ALIASES = {"colored-mnist": "mnist", "rotated-mnist": "mnist"}

_TERRA_IMAGES = "eccv_18_all_images_sm"
_TERRA_LOCATIONS = frozenset({"38", "43", "46", "100"})
_TERRA_CLASSES = frozenset(
    {"bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel"}
)


@dataclass(frozen=True)
class SourceFile:
    """A file to download.

    Args:
        name: File name; with a folder if it is not an archive and goes into a folder that an archive creates.
        urls: Mirrors of the same file.
        checksum: Algorithm and digits, if known; "a|b" is either, where a mirror packs the same content differently.
    """

    name: str
    urls: tuple[str, ...]
    checksum: str | None = None

    @property
    def base_name(self) -> str:
        """File name without folder."""
        return Path(self.name).name


@dataclass(frozen=True)
class Source:
    """Files of a data set; see the head of `sources.toml`. `prepare` rearranges the content of the archives."""

    folder: str
    contents: tuple[str, ...]
    files: tuple[SourceFile, ...]
    gigabytes: float
    page: str
    terms: str
    rows: Mapping[str, int] = field(default_factory=dict)
    prepare: Callable[[Path], None] | None = None

    def missing(self, folder: Path) -> list[str]:
        """Entries of `contents` that a folder lacks; MNIST's files may also be there unpacked."""
        return [
            entry
            for entry in self.contents
            if not any(
                (folder / name).exists() or (folder / name.removesuffix(".gz")).exists() for name in entry.split("|")
            )
        ]


def data_folder(root: str | Path | None = None) -> Path:
    """Folder that data sets are read from and fetched into, which may not exist yet.

    It is `root`, else the environment variable MOMENTALIGN_DATA, else ~/.cache/momentalign.
    """
    return Path(root or os.environ.get("MOMENTALIGN_DATA") or Path.home() / ".cache" / "momentalign").expanduser()


def find_source(name: str) -> tuple[str, Source]:
    """Key and source of a data set, or of "mnist"; ValueError if there is no such data set or it has no files."""
    if name in EMBEDDED:
        raise ValueError(f"{name} has no files: it is made of the digits that scikit-learn bundles.")
    key = _ALIASES.get(name, name)
    if key not in SOURCES:
        known = (*DATASET_NAMES, "mnist")
        raise ValueError(f"There is no data set {name!r}.{suggest(name, known)} Known: {', '.join(known)}.")
    return key, SOURCES[key]


def dataset_path(name: str, root: str | Path | None = None) -> Path:
    """Folder of a data set that has files, whether or not it exists; `root` as in :func:`data_folder`."""
    return data_folder(root) / find_source(name)[1].folder


def is_complete(name: str, root: str | Path | None = None) -> bool:
    """Whether a data set's folder has all required contents."""
    return not find_source(name)[1].missing(dataset_path(name, root))


def checksum_list(folder: Path) -> Path:
    """File beside a data set's folder with the checksums of its files, in the format of sha256sum."""
    return folder.with_name(f"{folder.name}.sha256")


def sort_camera_traps(folder: Path) -> None:
    """Turn the two archives of Terra Incognita into `location_…/animal/file`, and remove the rest.

    An image with several of the animals is copied to each of their folders, as in DomainBed. Images that the labels
    name but the archive lacks are skipped: the labels cover far more than the archive.
    """
    images = folder / _TERRA_IMAGES
    for labels in folder.glob("*.json") if images.is_dir() else ():
        try:
            content = read_json(labels)
            names = {category["id"]: category["name"] for category in content["categories"]}
            animals = defaultdict(set)
            for annotation in content["annotations"]:
                animals[annotation["image_id"]].add(names[annotation["category_id"]])
            pictures = [(image["id"], str(image["location"]), image["file_name"]) for image in content["images"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{labels.name} should be labels of camera traps in COCO's format: {error!r}.") from None
        present = {path.name for path in images.iterdir()}
        for identifier, location, file in pictures:
            if location in _TERRA_LOCATIONS and file in present:
                for animal in animals[identifier] & _TERRA_CLASSES:
                    target = folder / f"location_{location}" / animal
                    target.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(images / file, target / file)
        shutil.rmtree(images)
        labels.unlink()


def _read_sources() -> dict[str, Source]:
    content = tomllib.loads(files("momentalign.data").joinpath("sources.toml").read_text(encoding="utf-8"))
    return {name: _source(name, entry) for name, entry in content.items()}


def _source(name: str, entry: dict[str, Any]) -> Source:
    return Source(
        entry["folder"],
        tuple(entry["contents"]),
        tuple(
            SourceFile(file["name"], tuple(map(_url, file["urls"])), file.get("checksum")) for file in entry["files"]
        ),
        entry["gigabytes"],
        entry["page"],
        entry["terms"],
        entry.get("rows", {}),
        sort_camera_traps if name == "terra-incognita" else None,
    )


def _url(url: str) -> str:
    """Expand "drive:ID?KEY" to an address that answers with the file, not with a page to confirm."""
    scheme, _, rest = url.partition(":")
    if scheme != "drive":
        return url
    identifier, _, key = rest.partition("?")
    base = f"https://drive.usercontent.google.com/download?id={identifier}&export=download&confirm=t"
    return f"{base}&resourcekey={key}" if key else base


SOURCES = _read_sources()
