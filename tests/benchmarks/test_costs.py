"""The page of time and memory."""

import json
from pathlib import Path

from benchmarks.costs import averaging
from benchmarks.costs.page import averaging_table, cma_span, make_page
from benchmarks.costs.rows import paper_lines
from benchmarks.records import json_lines


def test_ratios_stand_beside_the_published(tmp_path: Path) -> None:
    rows = [
        {"table": "paper's table", "size": "colored-mnist", "name": name, "note": "", "seconds": s, "peak_bytes": b}
        for name, s, b in (("erm", 0.002, 2**30), ("cma", 0.003, 2**31))
    ]
    others = ("coral", "fishr", "hgp", "hutchinson", "hutchinson-exact", "cma-speed", "cma-memory")
    rows += [
        {**rows[0], "name": name, "seconds": None, "peak_bytes": None, "note": "too large, not run"} for name in others
    ]
    path = tmp_path / "costs.json"
    environment = {"momentalign": "0", "torch": "1", "accelerator": "cuda", "device": "NVIDIA H200"}
    path.write_text(json.dumps({"environment": environment, "rows": [*rows, {"table": "growth"}]}))
    lines = list(paper_lines(path))
    assert len(lines) == 9
    assert lines[0]["device"] == "NVIDIA H200"
    assert lines[0]["versions"]["torch"] == "1"
    blocks = make_page({"costs": lines, "averaging": []}).blocks
    assert "| CMA: Gram route | 1.50 |" in blocks["time"]
    assert "| CMA (speed): direct | – (2.43) |" in blocks["time"]
    assert "| CMA: Gram route | 2.00 |" in blocks["memory"]
    assert "| milliseconds | 2.0 |" in blocks["erm"]
    assert blocks["ours-time"] == "1.50"
    assert blocks["published-time"] == "2.43 to 4.41"
    assert blocks["notes"] == "too large"
    assert cma_span(lines, "seconds", "digits") == "1.50"
    assert cma_span(lines, "seconds", "vit") == "?"


def test_without_records_the_page_says_so() -> None:
    blocks = make_page({"costs": [], "averaging": []}).blocks
    assert all("Nothing was measured yet." in blocks[name] for name in ("time", "averaging"))


def test_an_average_is_a_share_of_the_step_without_it(tmp_path: Path) -> None:
    options = ["--dataset", "colored-digits", "--steps", "2", "--repeats", "1", "--precision", "32"]
    assert averaging.main([*options, "--out", str(tmp_path / "averaging.jsonl")]) == 0
    lines = list(json_lines(tmp_path / "averaging.jsonl"))
    assert [(line["algorithm"], line["average"]) for line in lines] == list(averaging.KINDS)
    assert all((line["addition"] > 0) == (line["average"] != "none") for line in lines)
    for line in lines:
        line["median"], line["fastest"] = (2.0, 1.0) if line["average"] == "none" else (2.02, 0.99)
        line["addition"], line["device"] = 0.002, "GPU"
    rows = averaging_table(lines).splitlines()[2:]
    added = "+1.00 / −1.00 / +0.20"
    assert rows[0] == f"| ERM, colored-digits, GPU | 2.000 | {added} | {added} | {added} |"
    assert rows[1] == f"| CMA, colored-digits, GPU | 2.000 | – | {added} | – |"
