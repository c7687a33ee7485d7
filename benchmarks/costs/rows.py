"""Rows of `momentalign bench` and of the scripts that write such files, as records."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from benchmarks.records import Line, RecordFile, study_versions
from momentalign.bench import BenchmarkRow, environment, write_benchmark

PAPER_TABLE = "paper's table"


def bench_lines(path: Path) -> Iterator[Line]:
    """One record for each row of a file, with its position, since records are sorted."""
    content = json.loads(path.read_text(encoding="utf-8"))
    versions = dict(content["environment"])
    device, accelerator = versions.pop("device"), versions.pop("accelerator")
    for index, row in enumerate(content["rows"]):
        yield {**row, "index": index, "accelerator": accelerator, "device": device, "versions": versions}


def paper_lines(path: Path) -> Iterator[Line]:
    """The rows of the paper's table."""
    return (line for line in bench_lines(path) if line["table"] == PAPER_TABLE)


def other_lines(path: Path) -> Iterator[Line]:
    """All other rows."""
    return (line for line in bench_lines(path) if line["table"] != PAPER_TABLE)


def save_speed(path: Path, rows: Iterable[BenchmarkRow]) -> None:
    """Write processor times of estimators as `momentalign bench` writes its rows."""
    conditions = {**environment(torch.device("cpu")), **study_versions(), "clock": "processor time"}
    write_benchmark(path, rows, conditions)


PERFORMANCE = RecordFile(("accelerator", "table", "size", "name"), other_lines)
"""Time and memory of all but the paper's table."""
