"""Records of many runs as one data frame: files are parsed together, damaged ones line by line."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from momentalign.runs._domainbed import DomainBedRecord
from momentalign.runs._records import MOST_STEPS, RECORDS, complete_lines, parse_lines, torn_note

_TEXT = ("domain", "split", "metric", "group")
_SCHEMA = pa.schema([("step", pa.int64()), *((name, pa.string()) for name in _TEXT), ("value", pa.float64())])
_BATCH_BYTES = 32 * 2**20  # parsed at once: bounds the memory, and is long enough to keep all cores busy


def read_record_frame(
    names: list[str], files: Mapping[int, Path], upstream: Sequence[tuple[int, *DomainBedRecord]]
) -> tuple[pd.DataFrame, list[str]]:
    """Read the records of runs into one frame, and list what was ignored.

    Args:
        names: Names of all runs.
        files: Record files by index of the run.
        upstream: DomainBed's records, already read: index of the run, step, domain, split, metric, value.
    """
    tables: list[pa.Table] = []
    runs: list[np.ndarray] = []
    problems: list[str] = []
    for batch in _batches(names, files, problems):
        together = _parse(b"".join(content for _, content in batch))
        lines = [content.count(b"\n") for _, content in batch]
        if together is not None and together.num_rows == sum(lines):
            tables.append(together)
            runs.append(np.repeat([run for run, _ in batch], lines))
            continue
        for run, content in batch:
            table = _parse(content)
            if table is None:
                rows, ignored = parse_lines(content, RECORDS)
                table = pa.Table.from_pylist(rows, schema=_SCHEMA)
                problems += [f"{names[run]}: {line}" for line in ignored]
            tables.append(table)
            runs.append(np.full(table.num_rows, run))
    if upstream:
        owner, step, domain, split, metric, value = zip(*upstream, strict=True)
        columns = {"step": step, "domain": domain, "split": split, "metric": metric, "group": [None] * len(owner)}
        tables.append(pa.table({**columns, "value": value}, schema=_SCHEMA))
        runs.append(np.array(owner))
    return _frame(tables, runs, names), problems


def _batches(names: list[str], files: Mapping[int, Path], problems: list[str]) -> Iterator[list[tuple[int, bytes]]]:
    batch: list[tuple[int, bytes]] = []
    size = 0
    for run, path in files.items():
        try:
            content, torn = complete_lines(path.read_bytes())
        except FileNotFoundError:
            continue  # no record yet
        except OSError as error:
            problems.append(f"{names[run]}: its {RECORDS} cannot be read ({error.strerror}).")
            continue
        if torn:
            problems.append(f"{names[run]}: {torn_note(RECORDS)}")
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
        content.decode()  # Arrow takes any bytes for text
        table = pyarrow.json.read_json(pa.BufferReader(content), parse_options=options)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    steps = pc.min_max(table["step"]).as_py()
    if table["step"].null_count or table["metric"].null_count or steps["min"] < 0 or steps["max"] >= MOST_STEPS:
        return None
    return table


def _encode(table: pa.Table) -> pa.Table:
    """Dictionary-encode the text columns."""
    for name in _TEXT:
        position = table.schema.get_field_index(name)
        table = table.set_column(position, name, table[name].dictionary_encode())
    return table


def _frame(tables: list[pa.Table], runs: list[np.ndarray], names: list[str]) -> pd.DataFrame:
    encoded = [_encode(table) for table in tables or [_SCHEMA.empty_table()]]
    table = pa.concat_tables(encoded).unify_dictionaries()
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
