"""Runs that a sweep means to do and has not begun: what a table counts as missing.

A sweep writes them to `.plans/` in its folder when it starts and removes them when it is through.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from momentalign._files import atomic_write

PLANS = ".plans"
_ATTEMPTS = 100
_COLUMNS = ("dataset", "algorithm", "test_domains", "trial", "hparams_seed", "setting", "domains")


def write_planned(out: Path, runs: Iterable[tuple[str, Mapping[str, Any], tuple[str, ...]]]) -> Path:
    """Say what a sweep will run.

    Args:
        out: The sweep's folder.
        runs: Name, configuration and the data set's domains of each run.

    Returns:
        The file, to be removed when all is done.
    """
    rows = [
        {"run": name, **{key: config[key] for key in _COLUMNS if key != "domains"}, "domains": list(domains)}
        for name, config, domains in runs
    ]
    text = json.dumps({"format": 1, "runs": rows})
    path = out / PLANS / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    for attempt in range(_ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, text)
            break
        except (FileNotFoundError, FileExistsError):
            # Another sweep that is through removes the folder while it is empty. Once a file is in it, it stays.
            if attempt == _ATTEMPTS - 1 or (path.parent.exists() and not path.parent.is_dir()):
                raise
    return path


def remove_planned(path: Path, *, done: bool) -> None:
    """Take a sweep off the list, and the list away when it was the last.

    Args:
        path: Of :func:`write_planned`.
        done: Whether all its runs are done; if not, it stays listed.
    """
    if done:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: another sweep, or this one is not through
        path.parent.rmdir()


def read_planned(folders: Iterable[Path], begun: Iterable[str], problems: list[str]) -> pd.DataFrame:
    """The runs that are planned in folders and have not begun.

    Args:
        folders: Folders of runs.
        begun: Names of the runs that are there.
        problems: Receives a line where there are any, or a plan cannot be read.

    Returns:
        One row a run, with the columns of `Sweep.runs` that say what it is.
    """
    there = set(begun)
    rows: dict[str, tuple[Any, ...]] = {}
    for folder in folders:
        before, planned = len(rows), 0
        for path in sorted((folder / PLANS).glob("*.json")):
            try:
                for row in json.loads(path.read_bytes())["runs"]:
                    planned += 1
                    if row["run"] not in there:
                        rows[row["run"]] = tuple(
                            tuple(row[key]) if key in ("test_domains", "domains") else row[key] for key in _COLUMNS
                        )
            except (OSError, ValueError, KeyError, TypeError):
                problems.append(f"{path} should list planned runs, but cannot be read; left out.")
        missing = len(rows) - before
        if missing:
            problems.append(
                f"Not begun, {missing} of {planned} planned runs. Run the sweep again to go on, or remove "
                f"{folder / PLANS} if it is given up."
            )
    return planned_frame(rows)


def planned_frame(rows: Mapping[str, tuple[Any, ...]]) -> pd.DataFrame:
    """Planned runs by name, as a frame."""
    frame = pd.DataFrame(list(rows.values()), columns=list(_COLUMNS), dtype="object")
    frame.index = pd.Index(list(rows), name="run", dtype="object")
    return frame
