"""What `run.json` says of a run."""

import json
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import momentalign
from momentalign._files import atomic_write
from momentalign.training._config import RunConfig

FORMAT = 1


def describe_run(config: RunConfig, domains: Iterable[str]) -> dict[str, Any]:
    """What `run.json` says of a run before anything but its plan is known.

    Args:
        config: What is run.
        domains: Names of the data set's domains.

    Returns:
        All of its keys.
    """
    return {
        "format": FORMAT,
        "momentalign": momentalign.__version__,
        "hash": config.hash(),
        "config": config.to_dict(),
        "domains": list(domains),
        "num_classes": None,
        "classes": [],
        "status": "running",
        "error": None,
        "started": now(),
        "finished": None,
        "versions": {},
        "device": None,
        "data": None,
    }


def read_run(folder: Path) -> dict[str, Any]:
    """Read a folder's `run.json`.

    Args:
        folder: A run's folder.

    Returns:
        What it says.

    Raises:
        ValueError: There is none, or it is of another format.
    """
    path = folder / "run.json"
    if not path.is_file():
        what = "has no run.json" if folder.is_dir() else "does not exist"
        raise ValueError(f"{folder} should be the folder of a run, but {what}. 'momentalign train' makes one.")
    try:
        about: dict[str, Any] = json.loads(path.read_bytes())
        found = about["format"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path} should say what was run, but cannot be read. Remove {folder} and run the same again."
        ) from None
    if found != FORMAT:
        raise ValueError(f"{path} is of format {found}, but this version reads format {FORMAT}. Update momentalign.")
    return about


def write_json(path: Path, content: object) -> None:
    """Write a file at once: what is there under its name is whole.

    Args:
        path: Where to.
        content: What JSON can hold.
    """
    atomic_write(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def check_same(path: Path, about: Mapping[str, Any], config: RunConfig, stamp: str | None) -> None:
    """Refuse to go on with another run.

    Args:
        path: The folder.
        about: What its `run.json` says.
        config: What is to be run.
        stamp: Of the data that it is to be run on.

    Raises:
        ValueError: The folder's run is of another configuration, or on other data of the same name.
    """
    if about["hash"] == config.hash():
        if not same_data(about, stamp):
            raise ValueError(
                f"{path} holds a run on what {config.dataset} held before: it has changed since. Name another folder, "
                "or remove this one."
            )
        return
    before, now = about.get("config", {}), config.to_dict()
    flat = [{**{k: v for k, v in side.items() if k != "hparams"}, **side.get("hparams", {})} for side in (before, now)]
    names = [name for name in {**flat[0], **flat[1]} if flat[0].get(name) != flat[1].get(name)]
    listed = "; ".join(f"{name} was {flat[0].get(name)!r} and is {flat[1].get(name)!r}" for name in names[:3])
    raise ValueError(
        f"{path} holds a run of another configuration: {listed or 'written by another version'}"
        f"{'; …' if len(names) > 3 else ''}. Name another folder, or remove this one."
    )


def same_data(about: Mapping[str, Any], stamp: str | None) -> bool:
    """Whether a run was on the data that are there now, as far as both are known.

    Args:
        about: What its `run.json` says.
        stamp: Of :func:`momentalign.training._stamp.data_stamp`.

    Returns:
        Whether it was.
    """
    return about.get("data") is None or stamp is None or about["data"] == stamp


def now() -> str:
    """The time as `run.json` has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy", "lightning", "transformers", "kornia"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
