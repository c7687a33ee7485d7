"""Measurements as text, and as JSON."""

import dataclasses
import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from rich.console import Group
from rich.table import Table

from momentalign._files import atomic_write
from momentalign.bench._rows import Row

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


def as_table(rows: Iterable[Row]) -> Group:
    """One table for each kind of measurement; where all its lines are of one size, the size stands in its title."""
    tables = []
    for _, group in groupby(rows, key=lambda row: (row.table, row.size if row.table == "penalty alone" else "")):
        lines = list(group)
        first = lines[0]
        one_size = all(line.size == first.size for line in lines)
        unit = _UNITS.get(first.table, "× ERM")
        title = f"{first.table}, {first.size}" if one_size else first.table
        table = Table(title=title, title_justify="left")
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


def write_json(path: Path, rows: Iterable[Row], environment: dict[str, object]) -> None:
    """Write all numbers at once: a file that is there is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"environment": environment, "rows": [dataclasses.asdict(row) for row in rows]}
    atomic_write(path, json.dumps(content, indent=1) + "\n")


def _number(value: float | None, factor: float = 1.0) -> str:
    if value is None:
        return "–"
    scaled = value * factor
    return f"{scaled:,.0f}" if scaled >= 1000 else f"{scaled:.4g}"
