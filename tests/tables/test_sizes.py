"""Small files that expand to more than the memory are refused before they are read."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from momentalign._machine import available_memory
from momentalign.encoders._feature_files import read_plan
from momentalign.tables import METADATA_KEY, read_frame, read_table

MEMORY = 2**20


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.tables._sizes.available_memory", lambda: MEMORY)


def declare(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    """The header of an array without its content."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def write_npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def rows(number: int) -> dict[str, Any]:
    return {"X": np.zeros((number, 8)), "y": np.arange(number) % 2, "domain": np.arange(number) // 2 % 2}


def test_compressed_zeros_are_refused_by_their_size(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez_compressed(path, **rows(20_000))
    assert path.stat().st_size < MEMORY / 20
    with pytest.raises(ValueError, match=r"^t.npz could not be read: its array 'X' should fit into memory") as caught:
        read_table(path)
    assert str(caught.value).endswith(
        "at most 512 KiB here, but would take 1.2 MiB. Write a file with fewer rows or columns, or use a machine with "
        "more memory."
    )
    np.savez_compressed(path, **rows(8000))
    assert len(read_table(path).target) == 8000


@pytest.mark.parametrize(("shape", "descr"), [((10**9, 10**9), "<f8"), ((0, 10**12), "<f8"), ((2, 2), "<U1000000")])
def test_an_array_is_refused_by_its_header(shape: tuple[int, ...], descr: str, tmp_path: Path) -> None:
    path = write_npz(tmp_path / "t.npz", X=declare(shape, descr))
    with pytest.raises(ValueError, match="its array 'X' should fit into memory"):
        read_frame(path)


def test_other_arrays_are_measured_when_they_are_read(tmp_path: Path) -> None:
    arrays = {}
    for name, array in rows(4).items():
        file = io.BytesIO()
        np.save(file, array)
        arrays[name] = file.getvalue()
    path = write_npz(tmp_path / "t.npz", **arrays, unused=declare((10**12,)))
    assert len(read_table(path).target) == 4
    with pytest.raises(ValueError, match="its array 'unused' should fit into memory"):
        read_table(path, target="unused")


def test_the_plan_of_a_feature_file_is_measured_too(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    plan = np.array(json.dumps({"plan": {"format": 1}}))
    np.savez(path, **{METADATA_KEY: plan})
    assert read_plan(path) == {"format": 1}
    np.savez_compressed(path, **{METADATA_KEY: np.array(" " * MEMORY + str(plan))})
    assert read_plan(path) == {}


def test_constant_columns_of_a_parquet_file_are_measured_as_they_are_read(tmp_path: Path) -> None:
    path, number = tmp_path / "t.parquet", 20_000
    pq.write_table(pa.table({f"x{k}": np.zeros(number) for k in range(8)}), path)
    assert path.stat().st_size < MEMORY / 20
    with pytest.raises(ValueError, match=r"^t.parquet could not be read: its table .* but would take 1.2 MiB\. Write"):
        read_frame(path)
    pq.write_table(pa.table({f"x{k}": np.zeros(number, dtype=bool) for k in range(8)}), path)
    assert read_frame(path).shape == (number, 8)


def test_texts_of_a_parquet_file_are_measured_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": ["a" * MEMORY, "b"]}), path, compression="zstd")
    with pytest.raises(ValueError, match=r"its table should fit into memory, at most 512 KiB here"):
        read_frame(path)


def test_files_are_read_where_the_memory_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.tables._sizes.available_memory", lambda: None)
    np.savez_compressed(tmp_path / "t.npz", **rows(20_000))
    assert len(read_table(tmp_path / "t.npz").target) == 20_000


def test_memory_of_the_machine_and_of_a_container(tmp_path: Path) -> None:
    meminfo, container, none = tmp_path / "meminfo", tmp_path, tmp_path / "none"
    meminfo.write_text("MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    4000 kB\n")
    (container / "memory.current").write_text("900\n")
    (container / "memory.stat").write_text("anon 500\nactive_file 100\ninactive_file 300\n")
    (container / "memory.max").write_text("max\n")
    assert available_memory(meminfo, none) == available_memory(meminfo, container) == 4000 * 1024
    (container / "memory.max").write_text("1000\n")
    assert available_memory(meminfo, container) == available_memory(none, container) == 1000 - 900 + 300
    physical = available_memory(none, none)
    assert physical is None or physical > 2**28
