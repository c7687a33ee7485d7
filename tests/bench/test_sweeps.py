from pathlib import Path

import pytest
import torch

from momentalign.bench._sweeps import engine_rows, page_rows, sweep_plan, write_synthetic_runs
from momentalign.report import accuracy_table
from momentalign.selection import read_runs

pytestmark = pytest.mark.slow


def test_synthetic_runs_are_read_like_real_ones(tmp_path: Path) -> None:
    assert write_synthetic_runs(tmp_path, records=2, trials=1) == 420
    sweep = read_runs(tmp_path)
    assert len(sweep.runs) == 420
    assert sweep.problems == []
    table = accuracy_table(sweep, "oracle").to_frame()
    assert {"vlcs", "terra-incognita"} <= set(table["dataset"])
    assert not table["mean"].isna().any()


def test_reading_tables_and_page_are_measured() -> None:
    rows = page_rows(records=1, trials=1)
    assert [row.name for row in rows] == ["read", "table, training-domain", "table, oracle", "page"]
    assert all(row.seconds and row.peak_bytes for row in rows)
    assert rows[0].time_ratio == 1
    assert "MB" in rows[-1].note


def test_the_engine_is_compared_with_plain_calls() -> None:
    called, swept, first = engine_rows(1)
    assert called.time_ratio == 1
    assert swept.seconds is not None
    assert "s a run" in swept.note
    assert first.seconds is not None


def test_the_plan_names_what_will_run() -> None:
    titles = [section.title for section in sweep_plan(torch.device("cpu"), quick=True, memory_limit=0)]
    assert titles == ["tables and page", "local engine"]
