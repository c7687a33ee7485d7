"""Raw records of the studies: docs/results/records/NAME.jsonl.xz, one JSON object a line.

A file is written in one way only, so that the same records give the same lines: sorted by their keys, fields sorted,
numbers rounded to six significant digits. Records with the key of an older one replace it.
"""

import json
import lzma
import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import momentalign
from momentalign._files import atomic_write
from momentalign.runs import RunState, read_run

DOCS = Path(__file__).parents[1] / "docs"
DIGITS = 6
"""Significant digits of a stored number."""
SWEEP_METRICS = ("accuracy", "cross_entropy", "gradient_gap", "hessian_gap", "loss")
"""Metrics of a run that are stored, with the averaged weights' besides."""

Line = dict[str, Any]


@dataclass(frozen=True)
class RecordFile:
    """How a file of records is made from what a study or a sweep wrote.

    Args:
        key: Fields that identify a record; a dot reaches into a field.
        read: Yields the records of a file or folder.
    """

    key: Sequence[str]
    read: Callable[[Path], Iterable[Line]]

    def key_of(self, line: Line) -> tuple[str, ...]:
        """Key of a record, as text that sorts."""
        return tuple(f"{value:06d}" if isinstance(value, int) else str(value) for value in self._fields(line))

    def _fields(self, line: Line) -> Iterator[Any]:
        for field in self.key:
            value: Any = line
            for part in field.split("."):
                value = value[part]
            yield value


def record_path(name: str, docs: Path = DOCS) -> Path:
    """Path of a file of records."""
    return docs / "results/records" / f"{name}.jsonl.xz"


def load_lines(name: str, docs: Path = DOCS) -> list[Line]:
    """Records of a file, none if it does not exist."""
    path = record_path(name, docs)
    if not path.exists():
        return []
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]


def add_lines(name: str, file: RecordFile, lines: Iterable[Line], docs: Path = DOCS) -> int:
    """Merge records into a file; returns how many it then has."""
    merged = {file.key_of(line): line for line in [*load_lines(name, docs), *lines]}
    text = "".join(
        json.dumps(rounded(merged[key]), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
        for key in sorted(merged)
    )
    path = record_path(name, docs)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return len(merged)


def rounded(value: Any) -> Any:
    """A JSON value with its numbers rounded; whole ones become integers, and what is not finite a string."""
    if isinstance(value, Mapping):
        return {str(key): rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return str(value)
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 10**DIGITS else short


def json_lines(path: Path) -> Iterator[Line]:
    """Records of a file that has them line by line already."""
    yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def sweep_lines(folder: Path) -> Iterator[Line]:
    """One record for each finished run in a sweep's folder: its run.json and its curves, by `metric|split|domain`."""
    for path in sorted(found.parent for found in folder.rglob("run.json")):
        info = read_run(path)
        if info["status"] != RunState.FINISHED:
            continue
        values: dict[str, dict[int, float]] = {}
        for line in json_lines(path / "records.jsonl"):
            if line["metric"].removeprefix("averaged_") in SWEEP_METRICS and line.get("group") is None:
                name = "|".join((line["metric"], line["split"] or "", line["domain"] or ""))
                values.setdefault(name, {})[line["step"]] = line["value"]
        steps = sorted({step for curve in values.values() for step in curve})
        curves = {name: [curve.get(step) for step in steps] for name, curve in values.items()}
        info.pop("records", None)  # size and checksum of the file, which is not stored
        yield {"run": {**info, "status": str(info["status"])}, "steps": steps, "curves": curves}


def expand_runs(lines: Iterable[Line], folder: Path) -> None:
    """Write runs of sweeps back as folders, which `momentalign table` and `report` read."""
    for line in lines:
        run = folder / line["run"]["hash"]
        run.mkdir(parents=True, exist_ok=True)
        (run / "run.json").write_text(json.dumps(line["run"], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        names = [name.split("|") for name in line["curves"]]
        records = [
            {"step": step, "domain": domain or None, "split": split or None, "metric": metric, "value": value}
            for step, values in zip(line["steps"], zip(*line["curves"].values(), strict=True), strict=True)
            for (metric, split, domain), value in zip(names, values, strict=True)
            if value is not None
        ]
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (run / "records.jsonl").write_text(text, encoding="utf-8")


SWEEP_RUNS = RecordFile(
    ("run.config.dataset", "run.config.algorithm", "run.config.trial", "run.config.hparams_seed", "run.hash"),
    sweep_lines,
)
"""Runs of sweeps, from their folders."""


def study_versions() -> dict[str, str]:
    """Versions of what a study of linear models was made with."""
    return {
        "momentalign": momentalign.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
