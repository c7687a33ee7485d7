"""Sizes that npz and parquet files declare, compared with the memory: a small file may expand to terabytes."""

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from momentalign._format import format_size
from momentalign._machine import available_memory

_COPIES = 2
"""Of the numbers at once: as they are read, and as a data frame."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
"""Bytes of a value in memory by parquet's types; 8 for all others, the address of a text."""


class NpzArrays:
    """Arrays of an npz file, none of which holds Python objects or is larger than the memory; `names` lists them."""

    def __init__(self, arrays: NpzFile) -> None:
        self._arrays = arrays
        self.names: list[str] = list(arrays.files)

    def get(self, name: str) -> NDArray[Any] | None:
        """Read an array, None if there is none of that name."""
        if name not in self._arrays:
            return None
        _check_memory(self._declared_size(name), f"array '{name}'")
        try:
            array: NDArray[Any] = self._arrays[name]
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise ValueError(
                f"'{name}' should be a plain array of numbers or text, but holds Python objects, which are not loaded. "
                f"Save {name}.astype(str) or {name}.astype(float) instead."
            ) from None
        return array

    def _declared_size(self, name: str) -> int:
        """Bytes of an array, by the archive's directory and by the array's own header."""
        archive: Any = self._arrays.zip
        info = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.NameToInfo else name)
        if info.file_size > _most_bytes():  # its header may be what is large
            return int(info.file_size)
        with archive.open(info) as member:
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(member))
            shape, _, dtype = ((), None, np.dtype("u1")) if read is None else read(member)
        # Also of an array without rows: names are made for its columns.
        return max(int(info.file_size), math.prod(max(1, size) for size in shape) * dtype.itemsize)


@contextmanager
def open_npz(path: Path) -> Iterator[NpzArrays]:
    """Open an npz file; arrays are read when they are asked for."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        yield NpzArrays(arrays)


def check_parquet_size(path: Path) -> None:
    """Raise ValueError if a parquet file does not fit into memory, by the rows and bytes of its metadata."""
    metadata = importlib.import_module("pyarrow.parquet").read_metadata(path)
    groups = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    types = [metadata.schema.column(index).physical_type for index in range(metadata.num_columns)]
    _check_memory(max(groups, metadata.num_rows * sum(_WIDTHS.get(name, 8) for name in types)), "table")


def _check_memory(size: int, what: str) -> None:
    if size > (most := _most_bytes()):
        raise ValueError(
            f"its {what} should fit into memory, at most {format_size(most)} here, but would take {format_size(size)}. "
            "Write a file with fewer rows or columns, or use a machine with more memory."
        )


def _most_bytes() -> float:
    memory = available_memory()
    return math.inf if memory is None else memory / _COPIES
