"""`records.jsonl`: one number a line, in the order in which they were recorded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

ParseLine = Callable[[bytes], dict[str, Any] | None]
AVERAGED = "averaged_"
"""Prefix of the metrics of averaged weights, which a run records beside those of its raw weights."""
TORN = "the last line of its records is incomplete and ignored."


class Record(TypedDict, total=False):
    """One number of a run; `group` only where it is one group's."""

    step: int
    domain: str | None
    split: str | None
    metric: str
    value: float | None
    group: str


def read_records(folder: Path) -> list[Record]:
    """Read a run's records, without a last line that a crash cut off."""
    content, _ = complete_lines((folder / "records.jsonl").read_bytes())
    return [json.loads(line) for line in content.splitlines()]


def parse_record(line: bytes) -> dict[str, Any] | None:
    """Parse a line into all keys of a record, or None where it is not one."""
    try:
        fields = json.loads(line)
        value = fields.get("value")
        row: dict[str, object] = {"step": int(fields["step"]), "value": None if value is None else float(value)}
        for key in ("domain", "split", "metric", "group"):
            text = fields.get(key)
            row[key] = None if text is None else str(text)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return row if row["metric"] is not None else None


def complete_lines(content: bytes, parse: ParseLine = parse_record) -> tuple[bytes, bool]:
    """Remove a last line that a crash cut off; returns the rest, and whether there was one."""
    end = content.rfind(b"\n") + 1
    if end == len(content):
        return content, False
    if parse(content[end:]) is not None:  # lacks nothing but its line break
        return content + b"\n", False
    return content[:end], True


def parse_lines(content: bytes, parse: ParseLine = parse_record) -> tuple[list[dict[str, Any]], list[str]]:
    """Parse the lines that are not empty; returns the rows, and a message if some lines cannot be read."""
    parsed = [(number, parse(line)) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    rows = [row for _, row in parsed if row is not None]
    bad = [number for number, row in parsed if row is None]
    if not bad:
        return rows, []
    which = f"line {bad[0]}" if len(bad) == 1 else f"{len(bad)} lines (the first is line {bad[0]})"
    verb = "is" if len(bad) == 1 else "are"
    return rows, [f"{which} of its records cannot be read and {verb} ignored."]
