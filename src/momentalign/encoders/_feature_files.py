"""Files of features, parquet or npz, and the folder of shards they are resumed from."""

import importlib
import json
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from momentalign._extras import require
from momentalign._files import atomic_file, atomic_folder, atomic_write, is_leftover, remove_folder
from momentalign._json import parse_json, read_json
from momentalign._outputs import check_output
from momentalign.tables import METADATA_KEY, open_npz, read_parquet_metadata

_SUFFIXES = (".parquet", ".npz")
_ROW_GROUP = 16384
_SHARD = re.compile(r"(\d+)-(\d+)(?:-([0-9a-f]{8}))?\.npy")
_PLAN = "plan.json"

_Features = NDArray[np.float32]
_Columns = Mapping[str, NDArray[np.generic]]


class Shards:
    """A folder with the features of consecutive rows, one file each, and the plan they belong to.

    The folder appears with its plan, and every file is written atomically with its checksum in its name, so interrupted
    work resumes after the last file that is intact. A folder with the plan of another data set or encoder is refused;
    with `fewer_rows`, one with other rows of the same data set is started over.

    Attributes:
        rows: Number of rows done.
    """

    def __init__(self, folder: Path, plan: Mapping[str, Any], *, fewer_rows: bool = False) -> None:
        self.folder, self._plan = folder, plan
        self._files: list[Path] = []
        self.rows = 0
        self._start_over = False
        if folder.exists():
            stored = _read_shard_plan(folder / _PLAN)
            if (fewer_rows and _differ_in_rows(stored, plan)) or (not stored and _is_ours(folder)):
                self._start_over = True
                return
            self._files, self.rows = _consecutive_shards(folder)
            # A folder without any rows may be replaced, whatever its plan.
            self._start_over = not self.rows and stored.get("format") == plan["format"]
            if not self._start_over:
                check_plan(stored, plan, folder, "unfinished")

    def create(self) -> Self:
        """Create the folder with its plan, or empty it if it is started over."""
        if self._start_over or not self.folder.exists():
            with _resume_hint(self.folder), atomic_folder(self.folder) as new:
                atomic_write(new / _PLAN, json.dumps(self._plan))
            self._start_over = False
        return self

    def append(self, features: _Features) -> None:
        """Save the features of the next rows, shape (m, d)."""
        if len(features):
            span = f"{self.rows:012d}-{self.rows + len(features):012d}"
            path = self.folder / f"{span}-{_checksum(features):08x}.npy"
            # An open file, because NumPy would append its own suffix to a name.
            with _resume_hint(path), atomic_file(path) as temporary, temporary.open("wb") as file:
                np.save(file, features, allow_pickle=False)
            self._files.append(path)
            self.rows += len(features)

    def blocks(self) -> Iterator[tuple[int, _Features]]:
        """All features in order, in blocks that fill a row group except the last, with the index of their first row."""
        start, pending = 0, list[_Features]()
        for path in self._files:
            pending.append(np.load(path, allow_pickle=False))
            if sum(map(len, pending)) >= _ROW_GROUP or path == self._files[-1]:
                block = np.concatenate(pending)
                yield start, block
                start, pending = start + len(block), []

    def remove(self) -> None:
        """Remove the folder, if there is one."""
        remove_folder(self.folder)


def check_plan(stored: Mapping[str, Any], wanted: Mapping[str, Any], path: Path, state: str) -> None:
    """Raise ValueError if the features at `path`, "unfinished" or "finished", belong to another plan."""
    remedy = "Remove it, or choose another name with '--out'."
    parts = [stored.get(what) for what in ("encoder", "data set")]
    complete = all(isinstance(part, dict) and {"name", "sha256"} <= part.keys() for part in parts)
    if stored.get("format") != wanted["format"] or not complete:
        raise ValueError(f"{path} holds no features that this version of momentalign wrote. {remedy}")
    for what in ("encoder", "data set"):
        if stored[what]["sha256"] != wanted[what]["sha256"]:
            theirs, ours = stored[what]["name"], wanted[what]["name"]
            which = (
                f"'{theirs}', not '{ours}'"
                if theirs != ours
                else f"also called '{ours}', with other rows, splits or weights"
            )
            raise ValueError(f"{path} holds {state} features of another {what} ({which}). {remedy}")


def check_feature_path(path: Path) -> None:
    """Raise ValueError if a feature file cannot be written to `path`."""
    check_output(path, _SUFFIXES)
    if path.suffix == ".parquet":
        _pyarrow()


def read_plan(path: Path) -> dict[str, Any]:
    """Read the plan of a feature file: format, data set and encoder; empty for a file written by something else."""
    metadata: Any = {}
    if path.suffix == ".parquet":
        _pyarrow()
        with suppress(ValueError, OSError):  # not a parquet file
            metadata = read_parquet_metadata(path)
    elif zipfile.is_zipfile(path):
        other = suppress(ValueError)  # other metadata of that name
        with open_npz(path) as arrays, other:
            stored = arrays.get(METADATA_KEY)
            metadata = {} if stored is None else parse_json(str(stored).encode())
    plan = metadata.get("plan", {}) if isinstance(metadata, dict) else {}
    return plan if isinstance(plan, dict) else {}


def check_intact(path: Path) -> None:
    """Raise ValueError if a finished .npz file does not have its checksums; parquet files have none."""
    if path.suffix != ".npz" or not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            intact = archive.testzip() is None
    except (zipfile.BadZipFile, RuntimeError, OSError, EOFError, ValueError):
        intact = False
    if not intact:
        raise ValueError(f"{path} is damaged. Remove it and run the same command again.")


def write_features(
    path: Path, shards: Shards, columns: _Columns, names: Mapping[str, Sequence[str]], plan: Mapping[str, Any]
) -> None:
    """Write features to a .parquet or .npz file, atomically.

    `columns` holds the other columns, shape (n,) each; `names` the names of those that are indices, under "classes",
    "domains" and "group_names".
    """
    write = _write_parquet if path.suffix == ".parquet" else _write_npz
    # Written in the shards' folder, which is removed at the end: a kill leaves no large temporary file for good.
    with _resume_hint(path), atomic_file(path, temporary_folder=shards.folder) as temporary:
        write(temporary, shards, columns, names, plan)


def _write_npz(
    path: Path, shards: Shards, columns: _Columns, names: Mapping[str, Sequence[str]], plan: Mapping[str, Any]
) -> None:
    arrays = {name: np.array(values, dtype=np.str_) for name, values in names.items()}
    arrays[METADATA_KEY] = np.array(json.dumps({"plan": plan}))
    # Not np.savez: it needs all features in memory, and has a parameter called 'file' itself.
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in {**columns, **arrays}.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
        with archive.open("X.npy", "w", force_zip64=True) as member:
            for start, features in shards.blocks():
                if start == 0:
                    shape = (len(columns["y"]), features.shape[1])
                    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(member, header)
                member.write(features.astype("<f4", copy=False).tobytes())


def _write_parquet(
    path: Path, shards: Shards, columns: _Columns, names: Mapping[str, Sequence[str]], plan: Mapping[str, Any]
) -> None:
    pa, parquet = _pyarrow()
    # Domains are few and read by people: names instead of indices.
    texts = {"domain": np.array(names["domains"], dtype=np.str_)[columns["domain"].astype(np.int64)]}
    columns = {**columns, **texts}
    metadata = {METADATA_KEY: json.dumps({"plan": plan, **names})}
    writer = None
    try:
        for start, features in shards.blocks():
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


@contextmanager
def _resume_hint(path: Path) -> Iterator[None]:
    """Name the file and tell how to resume in an error of the disk."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error}. Features saved before are kept; free some space and run the same "
            "command again to resume."
        ) from None


def _differ_in_rows(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether two plans have the same data set name and encoder, but other rows."""
    if stored.get("format") != wanted["format"] or stored["encoder"] != wanted["encoder"]:
        return False
    theirs, ours = stored["data set"], wanted["data set"]
    return bool(theirs["name"] == ours["name"] and theirs["sha256"] != ours["sha256"])


def _read_shard_plan(path: Path) -> dict[str, Any]:
    try:
        plan = read_json(path)
    except (FileNotFoundError, ValueError):
        return {}
    return plan if isinstance(plan, dict) else {}


def _is_ours(folder: Path) -> bool:
    """Whether a folder without a plan was left by a kill: it holds nothing but temporary files and shards."""
    return all(is_leftover(path) or _SHARD.fullmatch(path.name) for path in folder.iterdir())


def _consecutive_shards(folder: Path) -> tuple[list[Path], int]:
    """Intact shards that are consecutive from row 0, and the number of their rows."""
    starts = {int(match[1]): match for path in folder.iterdir() if (match := _SHARD.fullmatch(path.name))}
    files, rows = [], 0
    while rows in starts:
        path, end, checksum = folder / starts[rows][0], int(starts[rows][2]), starts[rows][3]
        try:
            features = np.load(path, allow_pickle=False)
            intact = len(features) == end - rows and checksum in (None, f"{_checksum(features):08x}")
        except (ValueError, EOFError, TypeError):
            intact = False
        if not intact:
            warnings.warn(f"{path} is damaged: the features from row {rows} on are computed again.", stacklevel=2)
            break
        files.append(path)
        rows = end
    return files, rows


def _checksum(features: _Features) -> int:
    return zlib.crc32(np.ascontiguousarray(features).data)


def _pyarrow() -> tuple[Any, Any]:
    parquet = require("pyarrow.parquet", "Parquet files need", extra="cli", alternative=", or write an .npz")
    return importlib.import_module("pyarrow"), parquet
