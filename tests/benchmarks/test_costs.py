"""The page of time and memory."""

import json
from pathlib import Path

from benchmarks.costs.page import bench_lines, make_page


def test_ratios_stand_beside_the_published(tmp_path: Path) -> None:
    rows = [
        {"table": "paper's table", "size": "colored-mnist", "name": name, "note": "", "seconds": s, "peak_bytes": b}
        for name, s, b in (("erm", 0.002, 2**30), ("cma", 0.003, 2**31))
    ]
    others = ("coral", "fishr", "hgp", "hutchinson", "hutchinson-exact", "cma-speed", "cma-memory")
    rows += [{**rows[0], "name": name, "seconds": None, "peak_bytes": None, "note": "not run"} for name in others]
    path = tmp_path / "costs.json"
    environment = {"momentalign": "0", "torch": "1", "device": "NVIDIA H200", "threads": 1}
    path.write_text(json.dumps({"environment": environment, "rows": [*rows, {"table": "growth"}]}))
    lines = list(bench_lines(path))
    assert len(lines) == 9
    assert lines[0]["device"] == "NVIDIA H200"
    assert lines[0]["versions"]["torch"] == "1"
    blocks = make_page({"costs": lines}).blocks
    assert "| CMA: Gram route | 1.50 |" in blocks["time"]
    assert "| CMA (speed): direct | – (2.43) |" in blocks["time"]
    assert "| CMA: Gram route | 2.00 |" in blocks["memory"]
    assert "| milliseconds | 2.0 |" in blocks["erm"]
    assert blocks["ours-time"] == "1.50 to 1.50"
    assert blocks["notes"] == "not run"


def test_without_records_the_page_says_so() -> None:
    assert "Nothing was measured yet." in make_page({"costs": []}).blocks["time"]
