"""What the benchmark measures: its clock and its memory, and the rows of its tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from momentalign.bench import probing_plan
from momentalign.bench._linear import LinearSize, linear_fits
from momentalign.bench._measure import measure_in_turns, peak_bytes
from momentalign.bench._sweeps import engine_rows, page_rows, sweep_plan, write_synthetic_runs
from momentalign.bench._training import BENCHMARKED, training_plan, training_rows
from momentalign.report import accuracy_table
from momentalign.selection import read_runs

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def test_peak_counts_what_lives_at_once_and_views_not_at_all() -> None:
    start = torch.zeros(1000)

    def chain() -> None:
        first = start + 1  # 4000 bytes
        second = first + 1  # 8000 alive
        del first
        third = (second + 1).view(10, 100).T[:5]  # 8000 alive: the first is gone, views cost nothing
        del second, third

    assert peak_bytes(chain, CPU) == 8000


def test_peak_counts_what_backward_keeps() -> None:
    start = torch.ones(1000, requires_grad=True)

    def square_of_square() -> None:
        (start.square().square().sum()).backward()

    # Two squares are kept for backward, and gradients come on top.
    assert peak_bytes(square_of_square, CPU) >= 3 * 4000


def test_functions_take_turns() -> None:
    calls: list[str] = []
    measure_in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, CPU, budget=0.0)
    assert calls[-6:] == ["a", "b"] * 3


def test_linear_fits() -> None:
    rows = list(linear_fits((LinearSize(300, 5, 2), LinearSize(300, 5, 3)), rounds=1))
    assert [row.name for row in rows] == ["LogisticRegression", "aligned", "path of 5"] * 2
    assert rows[0].time_ratio == 1
    assert all(row.seconds for row in rows)


def test_the_grid_is_timed_and_a_fit_weighed() -> None:
    (group,) = probing_plan(CPU, quick=True, memory_limit=0)
    rows = {row.name: row for row in group.run()}
    assert list(rows) == [
        "PCA and ISR-Mean",
        "one fit",
        "grid of 49, each from its neighbour",
        "top five on four more seeds",
        "protocol, all of it",
    ]
    assert rows["one fit"].time_ratio == 1
    assert rows["one fit"].peak_bytes is not None
    assert rows["one fit"].peak_bytes > 600 * 10 * 8  # at least a copy of the rows
    assert all("processor time" in row.note for row in rows.values())


def test_runs_are_timed_in_units_of_plain_training() -> None:
    rows = training_rows(CPU, "colored-digits", 4)
    assert [row.name for row in rows] == [*BENCHMARKED[:-2], "erm again", "cma again"]
    assert rows[0].time_ratio == 1
    assert all(row.seconds and "steps" in row.note and "evaluation" in row.note for row in rows)


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


@pytest.mark.parametrize(
    ("plan", "titles"),
    [
        (
            lambda: list(training_plan(torch.device("cuda"), quick=False))[:1],
            ["ColoredMNIST, 5001 steps, precision bf16"],
        ),
        (lambda: training_plan(CPU, quick=True), ["ColoredDigits, 21 steps"]),
        (lambda: sweep_plan(CPU, quick=True, memory_limit=0), ["tables and page", "local engine"]),
        (
            lambda: list(probing_plan(CPU, quick=False, memory_limit=0))[1:2],
            ["probing grid, CelebA: n=162770, d=100, C=2"],
        ),
    ],
)
def test_a_plan_names_what_will_run(plan: Callable[[], Any], titles: list[str]) -> None:
    assert [section.title for section in plan()] == titles
