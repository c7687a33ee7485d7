"""`run.json`: what was run, on which data, and how it ended."""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import momentalign
from momentalign._datasets import DATASET_NAMES, GROUPS_FILE, is_image, walk_links
from momentalign._errors import describe_error
from momentalign._files import atomic_write, file_digest, is_disk_full
from momentalign._json import read_json
from momentalign._model_file import MODEL_FORMAT, check_version
from momentalign._table_spec import spec_path
from momentalign.runs._config import RunConfig, cell_of, differing_keys
from momentalign.runs._description import check_description

RUN_FORMATS = 1, MODEL_FORMAT
"""Of `run.json`: those that can be read; the last is written. Records are the same in both, weights are not."""


class RunState(StrEnum):
    """State of a run. The first three are the `status` in run.json; the others follow from the rest of the folder."""

    RUNNING = "running"
    """Begun and not ended, or interrupted."""
    FINISHED = "finished"
    FAILED = "failed"
    DISK_FULL = "disk-full"
    """Failed because the disk was full: resumed automatically."""
    NEW = "new"
    """Not begun."""
    BUSY = "busy"
    """Another process trains in its folder."""
    DAMAGED = "damaged"
    """run.json cannot be parsed."""
    CHANGED = "changed"
    """The folder holds a run on data that have changed since."""
    FOREIGN = "foreign"
    """The folder holds another run, or one of another version."""


class DivergedError(ValueError):
    """The loss is not finite at a step, which ended the run."""

    def __init__(self, step: int) -> None:
        super().__init__(f"The loss is not finite at step {step}. Use a smaller weight or lr.")
        self.step = step


class UnreadableRunError(ValueError):
    """A run whose description cannot be read.

    Args:
        path: The file, `run.json` or DomainBed's `results.jsonl`.
        reason: What is wrong with it: "is damaged".
        state: NEW where there is no file, else FOREIGN or DAMAGED.
        advice: What to do.
    """

    def __init__(self, path: Path, reason: str, state: RunState, advice: str = "") -> None:
        super().__init__(f"{path} {reason}. {advice}".strip())
        self.path, self.reason, self.state = path, reason, state


def read_run(folder: Path) -> dict[str, Any]:
    """Read a folder's `run.json`; raises UnreadableRunError where it is missing, damaged or of another format."""
    path = folder / "run.json"
    advice = f"Remove {folder} and run the same command again."
    try:
        info: dict[str, Any] = read_json(path)
        if not isinstance(info, dict):
            raise ValueError("not an object")
        form = info["format"]
        if form in RUN_FORMATS:
            check_description(info)
            info["status"] = RunState(info["status"])
    except FileNotFoundError:
        advice = f"{folder} should be the folder of a run; 'momentalign train' makes one."
        raise UnreadableRunError(path, "does not exist", RunState.NEW, advice) from None
    except OSError as error:
        raise UnreadableRunError(path, f"cannot be read ({error.strerror})", RunState.FOREIGN) from None
    except (ValueError, KeyError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else f"is damaged ({error})"
        raise UnreadableRunError(path, reason, RunState.DAMAGED, advice) from None
    if form not in RUN_FORMATS:
        reason = f"has format {form!r}, but this version reads format {RUN_FORMATS[-1]}"
        newer = isinstance(form, int) and form > RUN_FORMATS[-1]
        advice = f"Update momentalign: {info.get('momentalign')} wrote it." if newer else ""
        raise UnreadableRunError(path, reason, RunState.FOREIGN, advice)
    return info


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically."""
    atomic_write(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def describe_run(config: RunConfig, domains: Iterable[str]) -> dict[str, Any]:
    """All keys of `run.json`, for a run of which only the configuration is known."""
    return {
        "format": RUN_FORMATS[-1],
        "momentalign": momentalign.__version__,
        "hash": config.hash(),
        "config": config.to_dict(),
        "domains": list(domains),
        "num_classes": None,
        "classes": [],
        "status": RunState.RUNNING,
        "error": None,
        "diverged_at": None,
        "disk_full": False,
        "started": now(),
        "finished": None,
        "versions": {},
        "device": None,
        "data": None,
    }


def describe_failure(error: Exception | str) -> dict[str, Any]:
    """The keys of `run.json` that an error sets."""
    return {
        "status": RunState.FAILED,
        "error": error if isinstance(error, str) else describe_error(error),
        "diverged_at": error.step if isinstance(error, DivergedError) else None,
        "disk_full": isinstance(error, Exception) and is_disk_full(error),
    }


def record_failure(folder: Path, config: RunConfig, domains: Iterable[str], error: Exception | str) -> None:
    """Mark a run as failed in its `run.json`, which is created if the run failed before it wrote one."""
    try:
        info = read_run(folder)
    except UnreadableRunError:
        info = describe_run(config, domains)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "run.json", info | describe_failure(error))


def run_state(folder: Path, config: RunConfig, stamp: str | None = None) -> tuple[RunState, str | None]:
    """State of a run by its folder, and its error or the reason why the folder cannot be used."""
    try:
        info = read_run(folder)
    except UnreadableRunError as error:
        advice = {
            RunState.NEW: None,
            RunState.DAMAGED: f"{error.path} {error.reason}. Use --retry-failed to start the run again.",
            RunState.FOREIGN: f"{error.path} {error.reason}. Use another --out.",
        }
        return error.state, advice[error.state]
    if info["status"] is not RunState.FINISHED:
        try:
            check_version(folder)
        except ValueError as error:
            return RunState.FOREIGN, str(error)
    if info["config"] != json.loads(json.dumps(config.to_dict())):
        return RunState.FOREIGN, f"{folder} holds a run of another configuration. Use another --out."
    if not _same_data(info, stamp):
        return RunState.CHANGED, f"{folder} holds a run on {config.dataset} before it changed. Use another --out."
    failed_on_full_disk = info["status"] is RunState.FAILED and info.get("disk_full")
    return (RunState.DISK_FULL if failed_on_full_disk else info["status"]), info.get("error")


def check_same(folder: Path, info: Mapping[str, Any], config: RunConfig, stamp: str | None) -> None:
    """Raise ValueError if a folder's run has another configuration, or other data of the same name."""
    if info.get("hash") == config.hash():
        if not _same_data(info, stamp):
            raise ValueError(
                f"{folder} holds a run on {config.dataset}, which has changed since. Name another folder, or remove "
                "this one."
            )
        return
    before, after = (
        {**{name: value for name, value in side.items() if name != "hparams"}, **side.get("hparams", {})}
        for side in (info["config"], config.to_dict())
    )
    names = differing_keys(before, after)
    changes = "; ".join(f"{name} was {before.get(name)!r} and is {after.get(name)!r}" for name in names[:3])
    raise ValueError(
        f"{folder} holds a run of another configuration: {changes or 'written by another version'}"
        f"{'; …' if len(names) > 3 else ''}. Name another folder, or remove this one."
    )


def find_clashes(runs: Iterable[RunConfig], out: Path) -> dict[str, int]:
    """Count the runs in a folder that share a table cell with a planned run, by the settings that differ."""
    planned = {run.hash(): run.to_dict() for run in runs}
    cells = {cell_of(config): config for config in planned.values()}
    clashes: Counter[str] = Counter()
    for path in out.glob("*/run.json"):
        if path.parent.name in planned:
            continue
        try:
            config = read_run(path.parent)["config"]
            ours = cells.get(cell_of(config))
        except (UnreadableRunError, KeyError, TypeError):
            continue  # cannot be in a table
        if ours is not None:
            clashes[", ".join(sorted(differing_keys(ours, config)))] += 1
    return dict(clashes)


def _same_data(info: Mapping[str, Any], stamp: str | None) -> bool:
    """Whether a run's data are unchanged, as far as both stamps are known."""
    return info.get("data") is None or stamp is None or info["data"] == stamp


def now() -> str:
    """The time, as in `run.json`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that numbers depend on."""
    installed = {"python": platform.python_version()}
    for name in ("torch", "numpy", "lightning", "transformers", "kornia"):
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def data_stamp(dataset: str) -> str | None:
    """Digest of a file's content, or of a folder's `groups.csv` and the names and sizes of its images.

    None for data sets with a name, which `momentalign data verify` checks, and for paths that do not exist.
    """
    path = Path(spec_path(dataset)).expanduser()
    if dataset in DATASET_NAMES or not path.exists():
        return None
    if path.is_file():
        stat = path.stat()
        return _of_file(path, stat.st_size, stat.st_mtime_ns)
    digest = hashlib.sha256()
    if (path / GROUPS_FILE).is_file():
        digest.update((path / GROUPS_FILE).read_bytes())
    for folder, files in sorted(walk_links(path)):
        for name in sorted(filter(is_image, files)):
            file = Path(folder, name)
            size = file.stat().st_size if file.exists() else -1  # a broken link
            digest.update(f"{file.relative_to(path).as_posix()}\0{size}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


@lru_cache(maxsize=16)
def _of_file(path: Path, size: int, changed: int) -> str:
    """Cached: a sweep asks for every run, and features may take gigabytes."""
    return file_digest(path)[:16]
