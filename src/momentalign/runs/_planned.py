"""Plan files: runs that a sweep has yet to begin, which a table counts as missing.

A sweep writes one to `.plans/` in its folder when it starts and removes it when it is done.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from momentalign._files import atomic_write
from momentalign._json import read_json
from momentalign.runs._config import CELL
from momentalign.runs._locks import in_shared_folder

PLANS = ".plans"
PLANNED_COLUMNS = (*CELL, "domains")


def write_planned(out: Path, runs: Iterable[tuple[str, Mapping[str, Any], tuple[str, ...]]]) -> Path:
    """Write a plan file to a sweep's folder: name, configuration and domains of each run."""
    rows = [
        {"run": name, **{key: config[key] for key in CELL}, "domains": list(domains)} for name, config, domains in runs
    ]
    text = json.dumps({"format": 1, "runs": rows})
    path = out / PLANS / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    in_shared_folder(path.parent, lambda: atomic_write(path, text))
    return path


def remove_planned(path: Path, *, done: bool) -> None:
    """Remove a plan file if all its runs are done, and the folder of plans if it is empty."""
    if done:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: another sweep, or this one is not done
        path.parent.rmdir()


def read_planned(folders: Iterable[Path], begun: Iterable[str], problems: list[str]) -> dict[str, tuple[Any, ...]]:
    """Read the planned runs that have not begun: `PLANNED_COLUMNS` by name; adds to `problems`."""
    started = set(begun)
    rows: dict[str, tuple[Any, ...]] = {}
    for folder in folders:
        before, planned = len(rows), 0
        for path in sorted((folder / PLANS).glob("*.json")):
            try:
                for row in read_json(path)["runs"]:
                    planned += 1
                    if row["run"] not in started:
                        rows[row["run"]] = tuple(
                            tuple(row[key]) if key in ("test_domains", "domains") else row[key]
                            for key in PLANNED_COLUMNS
                        )
            except (OSError, ValueError, KeyError, TypeError):
                problems.append(f"{path} should list planned runs, but cannot be read; ignored.")
        missing = len(rows) - before
        if missing:
            problems.append(
                f"Not begun, {missing} of {planned} planned runs. Run the sweep again to continue it, or remove "
                f"{folder / PLANS} to cancel them."
            )
    return rows
