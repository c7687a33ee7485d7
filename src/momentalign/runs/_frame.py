"""Records of many runs as one data frame: files are parsed together, and line by line only where one is damaged."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.json

from momentalign.runs._records import complete_lines, parse_record

_TEXT = ("domain", "split", "metric", "group")
_SCHEMA = pa.schema([("step", pa.int64()), *((name, pa.string()) for name in _TEXT), ("value", pa.float64())])
_BATCH_BYTES = 32 * 2**20  # parsed at once: bounds the memory, and is long enough to keep all cores busy


def read_record_frame(files: Sequence[tuple[str, Path]]) -> tuple[pd.DataFrame, list[str]]:
    """Read the records of runs, given as (name, path), and list what was left out of them."""
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


def record_frame(
    rows: Sequence[tuple[int, int, str | None, str | None, str, float | None]], names: list[str]
) -> pd.DataFrame:
    """The same frame of records given as (index of the run, step, domain, split, metric, value)."""
    run, step, domain, split, metric, value = zip(*rows, strict=True) if rows else ((),) * 6
    columns = {"step": step, "domain": domain, "split": split, "metric": metric, "group": [None] * len(rows)}
    table = pa.table({**columns, "value": value}, schema=_SCHEMA)
    return _frame([_encode(table)], [np.array(run, dtype=np.int64)], names)


def join_record_frames(first: pd.DataFrame, second: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Concatenate two frames of records, with common categories."""
    joined = {}
    for column in first.columns:
        if column in ("step", "value"):
            joined[column] = pd.concat([first[column], second[column]], ignore_index=True)
            continue
        both = pd.api.types.union_categoricals([first[column], second[column]])
        joined[column] = both.set_categories(names) if column == "run" else both
    return pd.DataFrame(joined)


def _batches(files: Sequence[tuple[str, Path]], problems: list[str]) -> Iterator[list[tuple[int, bytes]]]:
    batch: list[tuple[int, bytes]] = []
    size = 0
    for run, (name, path) in enumerate(files):
        try:
            content, torn = complete_lines(path.read_bytes())
        except FileNotFoundError:
            continue  # no record yet
        except OSError as error:
            problems.append(f"{name}: its records cannot be read ({error.strerror}).")
            continue
        if torn:
            problems.append(f"{name}: the last line of its records is incomplete and ignored.")
        batch.append((run, content))
        size += len(content)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


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
        row = parse_record(line)
        if row is None:
            bad.append(number)
        else:
            rows.append(row)
    if bad:
        which = f"line {bad[0]}" if len(bad) == 1 else f"{len(bad)} lines (the first is line {bad[0]})"
        verb = "is" if len(bad) == 1 else "are"
        problems.append(f"{name}: {which} of its records cannot be read and {verb} ignored.")
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _encode(table: pa.Table) -> pa.Table:
    """Dictionary-encode the text columns."""
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
