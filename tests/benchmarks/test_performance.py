"""The page of times and memory that `momentalign bench` measures."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.costs.performance import make_page
from benchmarks.costs.rows import other_lines
from benchmarks.pages import build, main
from benchmarks.records import DOCS

ROW = {"seconds": 0.002, "peak_bytes": 2**20, "time_ratio": 1.0, "memory_ratio": 1.0, "note": ""}


def bench_file(path: Path, accelerator: str, rows: list[dict[str, Any]]) -> Path:
    environment = {"torch": "9", "accelerator": accelerator, "device": "chip", "threads": 1, "clock": "processor time"}
    path.write_text(json.dumps({"environment": environment, "rows": [{**ROW, **row} for row in rows]}))
    return path


@pytest.fixture
def blocks(tmp_path: Path) -> dict[str, str]:
    """Blocks of two small files, one of a GPU."""
    step, small = "n=192 d=128 C=2 K=3", "n=96 d=64 C=2 K=3"
    on_cpu = [
        {"table": "penalty alone", "size": step, "name": "CMA, gram"},
        {"table": "penalty alone", "size": step, "name": "HGP", "time_ratio": 0.5, "seconds": 0.001},
        {"table": "penalty alone", "size": step, "name": "dense", "note": "needs about 28 GiB, not run"}
        | dict.fromkeys(("seconds", "peak_bytes", "time_ratio", "memory_ratio")),
        {"table": "growth", "size": small, "name": "CMA, gram", "peak_bytes": None, "memory_ratio": None},
        {"table": "growth", "size": step, "name": "CMA, gram", "peak_bytes": None, "memory_ratio": None},
        {"table": "whole step", "size": step, "name": "ERM"},
        {"table": "whole step", "size": small, "name": "ERM"},
        {"table": "linear fit", "size": "n=9", "name": "LogisticRegression", "seconds": 12.34},
        {"table": "linear fit", "size": "n=9", "name": "aligned", "time_ratio": 2.0},
        {"table": "probing grid", "size": "birds", "name": "one fit", "seconds": 0.5, "memory_ratio": 1.25},
        {"table": "probing grid", "size": "birds", "name": "grid", "seconds": 5.0, "memory_ratio": None},
        {"table": "paper's table", "size": "pacs", "name": "erm"},
    ]
    on_gpu = [
        {"table": "training run, bf16", "size": "colored-mnist", "name": "erm", "seconds": 5.0},
        {"table": "training run, 32", "size": "colored-mnist", "name": "erm", "seconds": 6.0},
        {"table": "whole step", "size": step, "name": "CMA, gram", "time_ratio": 1.004},
    ]
    lines = [*other_lines(bench_file(tmp_path / "cpu.json", "cpu", on_cpu))]
    lines += other_lines(bench_file(tmp_path / "gpu.json", "cuda", on_gpu))
    return dict(make_page({"performance": lines[::-1], "costs": [], "ablation": []}).blocks)


def test_tables_of_a_cpu(blocks: dict[str, str]) -> None:
    assert blocks["cpu-penalty"].splitlines() == [
        "| penalty alone, n=192 d=128 C=2 K=3 | ms | × CMA, gram | MiB | × CMA, gram, memory |",
        "|---|--:|--:|--:|--:|",
        "| CMA, gram | 2.00 | 1.00 | 1.00 | 1.00 |",
        "| HGP | 1.00 | 0.500 | 1.00 | 1.00 |",
        "| dense: needs about 28 GiB, not run |  |  |  |  |",
    ]
    assert blocks["cpu-growth"].splitlines()[0] == "| CMA, gram | ms | × first line |"
    assert blocks["cpu-growth"].splitlines()[2].startswith("| n=96 d=64 C=2 K=3 | 2.00 |")
    assert "n=192" in blocks["cpu-step"]
    assert "n=96" not in blocks["cpu-step"]
    assert "n=96" in blocks["cpu-small-step"]
    assert "n=192" not in blocks["cpu-small-step"]
    assert blocks["linear"].splitlines()[::2] == [
        "| linear fit | LogisticRegression, s | aligned, × |",
        "| n=9 | 12.3 | 2.00 |",
    ]
    assert blocks["grid"].splitlines()[::2] == ["| probing grid | one fit, s | grid, s |", "| birds | 0.500 | 5.00 |"]
    assert blocks["grid-memory"] == "1.25"
    assert blocks["conditions"] == "torch 9, chip, 1 thread, processor time"


def test_tables_of_a_gpu_are_apart(blocks: dict[str, str]) -> None:
    assert "| CMA, gram | 2.00 | 1.00 |" in blocks["cuda-bench"]
    assert "| erm | 5.00 |" in blocks["cuda-training"]
    assert "| erm | 6.00 |" in blocks["cuda-training"]
    assert "kernels" not in blocks["cuda-bench"]


def test_what_was_not_measured_names_its_command(blocks: dict[str, str]) -> None:
    assert blocks["kernels"] == (
        "*Nothing was measured yet with this code:* `python -m benchmarks.kernels --out bench.json`"
    )
    empty = make_page({"performance": [], "costs": [], "ablation": []}).blocks
    assert "momentalign bench --device cuda" in empty["cuda-bench"]
    assert "momentalign bench --probing-grid" in empty["grid"]
    assert empty["vit-time"] == "?"


def test_a_file_of_bench_becomes_records_and_a_page(tmp_path: Path) -> None:
    (tmp_path / "performance.md").write_text((DOCS / "performance.md").read_text(encoding="utf-8"))
    rows = [{"table": "growth", "size": "n=77", "name": "CMA, gram"}]
    file = bench_file(tmp_path / "bench.json", "cpu", rows)
    assert main(["add", "performance", str(file)], tmp_path) == 0
    build("performance", tmp_path)
    assert "n=77" in (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert build("performance", tmp_path, check=True) == []


def test_no_table_is_typed_by_hand() -> None:
    text = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert (
        re.findall(r"^\|.*", re.sub(r"<!-- begin ([\w-]+) -->.*?<!-- end \1 -->", "", text, flags=re.DOTALL), re.M)
        == []
    )
