"""Measurements as text, and as JSON."""

import dataclasses
import json
import os
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from rich.console import Group
from rich.table import Table

from momentalign.bench._rows import Row

_UNITS = {
    "penalty alone": "× CMA, gram",
    "growth": "× first line",
    "launches": "× captured",
    "many tiles": "× products",
}


def as_table(rows: Iterable[Row]) -> Group:
    """One table for each kind of measurement and size."""
    tables = []
    for title, group in groupby(rows, key=lambda row: row.table):
        unit = _UNITS.get(title, "× ERM")
        table = Table(title=title, title_justify="left")
        for heading in ("size", "", "ms", unit, "MiB", unit, "note"):
            table.add_column(heading, justify="right" if heading in ("ms", "MiB", unit) else "left")
        for row in group:
            table.add_row(
                row.size,
                row.name,
                _number(row.seconds, 1e3),
                _number(row.time_ratio),
                _number(row.peak_bytes, 2**-20),
                _number(row.memory_ratio),
                row.note,
            )
        tables.append(table)
    return Group(*tables)


def write_json(path: Path, rows: Iterable[Row], environment: dict[str, object]) -> None:
    """Write all numbers at once: a file that is there is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"environment": environment, "rows": [dataclasses.asdict(row) for row in rows]}
    unfinished = path.with_name(path.name + f".{os.getpid()}.tmp")
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    unfinished.replace(path)


def _number(value: float | None, factor: float = 1.0) -> str:
    if value is None:
        return "–"
    scaled = value * factor
    return f"{scaled:,.0f}" if scaled >= 1000 else f"{scaled:.4g}"
