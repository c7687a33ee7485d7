"""Files of features: parquet, a column each, or npz, one matrix."""

import importlib
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._extras import require
from momentalign._files import check_output
from momentalign.encoders._shards import Features, Shards, write_atomically

SUFFIXES = (".parquet", ".npz")
_METADATA = "momentalign"
"""Key of a parquet file's metadata, and name of an npz file's array, with the plan and the names, as JSON."""
_ROW_GROUP = 16384

Columns = Mapping[str, NDArray[np.generic]]


def check_path(path: Path) -> None:
    """Refuse a place that no file of features can take.

    Args:
        path: The file.

    Raises:
        ValueError: Another suffix, a folder, or a place that takes no files.
    """
    check_output(path, SUFFIXES)
    if path.suffix == ".parquet":
        _pyarrow()


def read_plan(path: Path) -> dict[str, Any]:
    """The plan that a file of features was written to.

    Args:
        path: The file.

    Returns:
        The plan; empty for a file that something else wrote.
    """
    stored: Any = None
    if path.suffix == ".parquet":
        pa, parquet = _pyarrow()
        try:
            stored = (parquet.read_schema(path).metadata or {}).get(_METADATA.encode())
        except (pa.ArrowInvalid, OSError):
            return {}
    elif zipfile.is_zipfile(path):
        with np.load(path, allow_pickle=False) as arrays:
            stored = str(arrays[_METADATA]) if _METADATA in arrays else None
    plan = json.loads(stored).get("plan", {}) if stored else {}
    return plan if isinstance(plan, dict) else {}


def write_features(
    path: Path, shards: Shards, columns: Columns, names: Mapping[str, Sequence[str]], plan: Mapping[str, Any]
) -> None:
    """Write features and what belongs to them to a file, which appears whole or not at all.

    Args:
        path: A .parquet or .npz file.
        shards: The features.
        columns: What else is known of each row, shape (n,) each.
        names: Names of what columns hold as indices: "classes", "domains", "group_names".
        plan: What the features are of.
    """
    write = _write_parquet if path.suffix == ".parquet" else _write_npz
    # In the shards' folder, which goes when all is done: a kill leaves nothing of this size behind for good.
    write_atomically(path, lambda temporary: write(temporary, shards, columns, names, plan), beside=shards.folder)


def _write_npz(
    path: Path, shards: Shards, columns: Columns, names: Mapping[str, Sequence[str]], plan: Mapping[str, Any]
) -> None:
    arrays = {name: np.array(values, dtype=np.str_) for name, values in names.items()}
    arrays[_METADATA] = np.array(json.dumps({"plan": plan}))
    # Not np.savez: it would need all features in memory, and has a parameter called 'file' itself.
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in {**columns, **arrays}.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
        with archive.open("X.npy", "w", force_zip64=True) as member:
            for start, features in _placed(shards.blocks(_ROW_GROUP)):
                if start == 0:
                    shape = (len(columns["y"]), features.shape[1])
                    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(member, header)
                member.write(features.astype("<f4", copy=False).tobytes())


def _write_parquet(
    path: Path, shards: Shards, columns: Columns, names: Mapping[str, Sequence[str]], plan: Mapping[str, Any]
) -> None:
    pa, parquet = _pyarrow()
    # Domains are few and read by people: their names instead of numbers.
    texts = {"domain": np.array(names["domains"], dtype=np.str_)[columns["domain"].astype(np.int64)]}
    columns = {**columns, **texts}
    metadata = {_METADATA: json.dumps({"plan": plan, **names})}
    writer = None
    try:
        for start, features in _placed(shards.blocks(_ROW_GROUP)):
            rows = slice(start, start + len(features))
            table = pa.table(
                {f"x{k}": np.ascontiguousarray(column) for k, column in enumerate(features.T)}
                | {name: pa.array(column[rows].tolist()) for name, column in columns.items()}
            ).replace_schema_metadata(metadata)
            writer = writer or parquet.ParquetWriter(path, table.schema, use_dictionary=["domain", "split"])
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _placed(blocks: Iterator[Features]) -> Iterator[tuple[int, Features]]:
    start = 0
    for features in blocks:
        yield start, features
        start += len(features)


def _pyarrow() -> tuple[Any, Any]:
    parquet = require("pyarrow.parquet", "Parquet files need", extra="cli", alternative=", or write an .npz")
    return importlib.import_module("pyarrow"), parquet
