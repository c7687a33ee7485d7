"""`records.jsonl` of many runs, quickly: files are parsed together, and one by one only where something is wrong."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.json

_TEXT = ("domain", "split", "metric", "group")
_SCHEMA = pa.schema([("step", pa.int64()), *((name, pa.string()) for name in _TEXT), ("value", pa.float64())])
_TOGETHER = 32 * 2**20  # bytes parsed at once: bounds the memory, and is long enough to keep all cores busy


def read_records(files: Sequence[tuple[str, Path]]) -> tuple[pd.DataFrame, list[str]]:
    """Read the records of runs.

    Args:
        files: Name of a run and path of its records, in the order of the runs.

    Returns:
        The records as :class:`Sweep` describes them, and what was left out of them.
    """
    tables: list[pa.Table] = []
    runs: list[np.ndarray] = []
    problems: list[str] = []
    for batch in _batches(files, problems):
        together = _parse(b"".join(content for _, content in batch))
        lines = [content.count(b"\n") for _, content in batch]
        if together is not None and together.num_rows == sum(lines):
            tables.append(_encode(together))
            runs.append(np.repeat([run for run, _ in batch], lines))
            continue
        for run, content in batch:
            table = _parse(content)
            if table is None:
                table = _line_by_line(files[run][0], content, problems)
            tables.append(_encode(table))
            runs.append(np.full(table.num_rows, run))
    return _frame(tables, runs, [name for name, _ in files]), problems


def frame_of(
    rows: Sequence[tuple[int, int, str | None, str | None, str, float | None]], names: list[str]
) -> pd.DataFrame:
    """Records given one by one as (number of the run, step, domain, split, metric, value), as the same frame."""
    run, step, domain, split, metric, value = zip(*rows, strict=True) if rows else ((),) * 6
    columns = {"step": step, "domain": domain, "split": split, "metric": metric, "group": [None] * len(rows)}
    table = pa.table({**columns, "value": value}, schema=_SCHEMA)
    return _frame([_encode(table)], [np.array(run, dtype=np.int64)], names)


def _batches(files: Sequence[tuple[str, Path]], problems: list[str]) -> Iterator[list[tuple[int, bytes]]]:
    batch: list[tuple[int, bytes]] = []
    size = 0
    for run, (name, path) in enumerate(files):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue  # a run that has not come to its first record
        except OSError as error:
            problems.append(f"{name}: its records cannot be read ({error.strerror}).")
            continue
        batch.append((run, _whole_lines(name, content, problems)))
        size += len(content)
        if size >= _TOGETHER:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _whole_lines(name: str, content: bytes, problems: list[str]) -> bytes:
    """Leave out a last line that a crash tore; one that only lacks its line break is whole."""
    end = content.rfind(b"\n") + 1
    if end == len(content):
        return content
    if _record(content[end:]) is not None:
        return content + b"\n"
    problems.append(f"{name}: the last line of its records is torn and left out.")
    return content[:end]


def _parse(content: bytes) -> pa.Table | None:
    if not content:
        return _SCHEMA.empty_table()
    options = pyarrow.json.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="ignore")
    try:
        table = pyarrow.json.read_json(pa.BufferReader(content), parse_options=options)
    except pa.ArrowInvalid:
        return None
    return None if table["step"].null_count or table["metric"].null_count else table


def _line_by_line(name: str, content: bytes, problems: list[str]) -> pa.Table:
    rows = []
    bad = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        row = _record(line)
        if row is None:
            bad.append(number)
        else:
            rows.append(row)
    if bad:
        which = f"line {bad[0]}" if len(bad) == 1 else f"{len(bad)} lines (the first is line {bad[0]})"
        verb = "is" if len(bad) == 1 else "are"
        problems.append(f"{name}: {which} of its records cannot be read and {verb} left out.")
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _record(line: bytes) -> dict[str, object] | None:
    """One line's values, or None where they are not what a record holds."""
    try:
        found = json.loads(line)
        value = found.get("value")
        row: dict[str, object] = {"step": int(found["step"]), "value": None if value is None else float(value)}
        for key in _TEXT:
            text = found.get(key)
            row[key] = None if text is None else str(text)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return row if row["metric"] is not None else None


def _encode(table: pa.Table) -> pa.Table:
    """Text by number, so that a record takes bytes and not words."""
    for name in _TEXT:
        position = table.schema.get_field_index(name)
        table = table.set_column(position, name, table[name].dictionary_encode())
    return table


def _frame(tables: list[pa.Table], runs: list[np.ndarray], names: list[str]) -> pd.DataFrame:
    table = pa.concat_tables(tables).unify_dictionaries() if tables else _encode(_SCHEMA.empty_table())
    codes = np.concatenate(runs) if runs else np.zeros(0, dtype=np.int64)
    columns = {"run": pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype="object"))}
    for name in _TEXT:
        column = table[name].combine_chunks()
        indices = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        words = pd.Index(column.dictionary.to_pylist(), dtype="object")
        columns[name] = pd.Categorical.from_codes(indices, categories=words)
    frame = pd.DataFrame(columns)
    frame.insert(1, "step", table["step"].to_numpy())
    frame["value"] = table["value"].to_numpy()
    return frame
