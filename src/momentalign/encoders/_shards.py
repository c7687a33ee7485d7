"""Features that are done already, kept beside the file they will become."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from momentalign._files import atomic_file

_NAME = re.compile(r"(\d+)-(\d+)\.npy")
_PLAN = "plan.json"

Features = NDArray[np.float32]


class Shards:
    """A folder with the features of consecutive rows, a file at a time, and the plan that they belong to.

    Every file appears whole or not at all, so that work that is killed goes on where the last file ends.

    Args:
        folder: The folder.
        plan: Names and digests of data set and encoder; a folder of others is refused.
        fewer_rows: Whether a folder of other rows of the same data set is begun anew instead.

    Attributes:
        rows: Number of rows that are done.
    """

    def __init__(self, folder: Path, plan: Mapping[str, Any], *, fewer_rows: bool = False) -> None:
        self.folder, self._plan = folder, plan
        self._files: list[Path] = []
        self.rows = 0
        self._begin_anew = False
        if folder.exists():
            found = _read_plan(folder / _PLAN)
            if fewer_rows and _differ_in_rows(found, plan):
                self._begin_anew = True
                return
            self._files, self.rows = _consecutive(folder)
            # One that was begun without anything done may be replaced, whatever it was for.
            self._begin_anew = not self.rows and found.get("format") == plan["format"]
            if not self._begin_anew:
                check_plan(found, plan, folder, "unfinished")

    def create(self) -> Self:
        """Make the folder where it is not there yet, and empty it where it is to be begun anew."""
        if self._begin_anew:
            shutil.rmtree(self.folder)
            self._begin_anew = False
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / _PLAN).exists():
            content = json.dumps(self._plan)
            write_atomically(self.folder / _PLAN, lambda temporary: temporary.write_text(content, encoding="utf-8"))
        return self

    def append(self, features: Features) -> None:
        """Keep the features of the next rows, shape (m, d)."""
        if len(features):
            path = self.folder / f"{self.rows:012d}-{self.rows + len(features):012d}.npy"
            write_atomically(path, lambda temporary: _save(temporary, features))
            self._files.append(path)
            self.rows += len(features)

    def blocks(self, rows: int) -> Iterator[Features]:
        """All features in order, at least so many rows at a time but for the last."""
        waiting: list[Features] = []
        for path in self._files:
            waiting.append(np.load(path, allow_pickle=False))
            if sum(map(len, waiting)) >= rows:
                yield np.concatenate(waiting)
                waiting = []
        if waiting:
            yield np.concatenate(waiting)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)


def _differ_in_rows(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether two plans are of one data set by its name and one encoder, but of other rows."""
    if found.get("format") != wanted["format"] or found["encoder"] != wanted["encoder"]:
        return False
    theirs, ours = found["data set"], wanted["data set"]
    return bool(theirs["name"] == ours["name"] and theirs["sha256"] != ours["sha256"])


def check_plan(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path, state: str) -> None:
    """Refuse features of something else.

    Args:
        found: Plan of what is there; empty for something else.
        wanted: Plan of what was asked for.
        path: Where it is.
        state: "unfinished" or "finished".

    Raises:
        ValueError: The plans differ.
    """
    elsewhere = "Remove it, or choose another name with '--out'."
    if found.get("format") != wanted["format"]:
        raise ValueError(f"{path} holds no features that this version of momentalign wrote. {elsewhere}")
    for what in ("encoder", "data set"):
        if found[what]["sha256"] != wanted[what]["sha256"]:
            theirs, ours = found[what]["name"], wanted[what]["name"]
            which = (
                f"'{theirs}', not '{ours}'"
                if theirs != ours
                else f"also called '{ours}', with other rows, splits or weights"
            )
            raise ValueError(f"{path} holds {state} features of another {what} ({which}). {elsewhere}")


def write_atomically(path: Path, write: Any, *, beside: Path | None = None) -> None:
    """Write a file that appears whole or not at all, and say what to do where it cannot be written.

    Args:
        path: The place.
        write: Called with the path to write to.
        beside: Folder of that path; by default that of `path`.

    Raises:
        OSError: The disk is full, for instance.
    """
    try:
        with atomic_file(path, temporary_folder=beside) as temporary:
            write(temporary)
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error}. What was kept before stays; make room and run the same again to go on."
        ) from None


def _read_plan(path: Path) -> dict[str, Any]:
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return plan if isinstance(plan, dict) else {}


def _save(path: Path, features: Features) -> None:
    with path.open("wb") as file:  # given a name, NumPy would append its own suffix
        np.save(file, features, allow_pickle=False)


def _consecutive(folder: Path) -> tuple[list[Path], int]:
    """The files that follow each other from row 0 on, and the number of their rows."""
    starts = {
        int(match[1]): (path, int(match[2])) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))
    }
    files, rows = [], 0
    while rows in starts:
        path, rows = starts[rows]
        files.append(path)
    return files, rows
