"""Rows and groups of measurements, as text tables and as JSON."""

import dataclasses
import importlib.metadata
import json
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Self

import torch
from rich.console import Group
from rich.table import Table

import momentalign
from momentalign._files import atomic_write
from momentalign.bench._measure import Measurement


@dataclass(frozen=True)
class BenchmarkRow:
    """One row of a table; numbers are None where nothing was run, and `note` says why."""

    table: str
    size: str
    name: str
    seconds: float | None = None
    peak_bytes: int | None = None
    time_ratio: float | None = None
    memory_ratio: float | None = None
    note: str = ""

    @classmethod
    def of(cls, table: str, size: object, name: str, measured: Measurement, unit: Measurement, note: str = "") -> Self:
        """Make a row whose ratios are in units of another measurement."""
        memory = measured.peak_bytes / unit.peak_bytes if unit.peak_bytes else None
        time = measured.seconds / unit.seconds
        return cls(table, str(size), name, measured.seconds, measured.peak_bytes or None, time, memory, note)


@dataclass(frozen=True)
class BenchmarkGroup:
    """Measurements that belong together; nothing runs before `run` is called."""

    title: str
    run: Callable[[], list[BenchmarkRow]]


def environment(device: torch.device) -> dict[str, object]:
    """Versions, device, threads and clock that the numbers depend on."""
    one_thread = device.type == "cpu" and torch.get_num_threads() == 1
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "momentalign": momentalign.__version__,
        "torch": torch.__version__,
        "numpy": importlib.metadata.version("numpy"),
        "python": platform.python_version(),
        "accelerator": device.type,
        "device": name,
        "threads": torch.get_num_threads(),
        "clock": "processor time" if one_thread else "wall-clock time",
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def write_benchmark(path: Path, rows: Iterable[BenchmarkRow], environment: dict[str, object]) -> None:
    """Write all rows as JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"environment": environment, "rows": [dataclasses.asdict(row) for row in rows]}
    atomic_write(path, json.dumps(content, indent=1) + "\n")


# Headings of the ratios by table; all others are in units of ERM.
_UNITS = {
    "penalty alone": "× CMA, gram",
    "growth": "× first line",
    "launches": "× captured",
    "tables and page of a sweep": "× reading",
    "engine of a sweep": "× called",
    "many tiles": "× products",
    "linear fit": "× LogisticRegression",
    "probing grid": "× fit, × data",
}


def benchmark_tables(rows: Iterable[BenchmarkRow]) -> Group:
    """One text table for each kind of measurement; a size that all its rows share goes into the title."""
    tables = []
    for _, group in groupby(rows, key=lambda row: (row.table, row.size if row.table == "penalty alone" else "")):
        lines = list(group)
        first = lines[0]
        one_size = all(line.size == first.size for line in lines)
        unit = _UNITS.get(first.table, "× ERM")
        table = Table(title=f"{first.table}, {first.size}" if one_size else first.table, title_justify="left")
        sizes = [] if one_size else ["size"]
        for heading in (*sizes, "", "ms", unit, "MiB", unit):
            table.add_column(heading, justify="right" if heading in ("ms", "MiB", unit) else "left")
        for line in lines:
            table.add_row(
                *([] if one_size else [line.size]),
                f"{line.name}: {line.note}" if line.note else line.name,
                _number(line.seconds, 1e3),
                _number(line.time_ratio),
                _number(line.peak_bytes, 2**-20),
                _number(line.memory_ratio),
            )
        tables.append(table)
    return Group(*tables)


def _number(value: float | None, factor: float = 1.0) -> str:
    if value is None:
        return "–"
    scaled = value * factor
    return f"{scaled:,.0f}" if scaled >= 1000 else f"{scaled:.4g}"
