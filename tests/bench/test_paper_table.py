import io
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from momentalign.bench import BenchmarkRow, _paper_table, paper_plan, paper_table
from momentalign.cli import app

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def tiny(name: str, classes: int) -> _paper_table._CostSet:
    def encoder() -> tuple[torch.nn.Module, tuple[int, ...], int]:
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 128)), (1, 4, 4), 128

    return _paper_table._CostSet(name, name, 4, 2, classes, encoder)


def text(rows: list[BenchmarkRow]) -> str:
    output = io.StringIO()
    Console(file=output, width=200).print(paper_table(rows, CPU))
    return output.getvalue()


def test_ours_stand_beside_the_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_paper_table, "_SETS", (tiny("colored-mnist", 2), tiny("office-home", 3)))
    sections = list(paper_plan(CPU, quick=True, memory_limit=2**30))
    rows = [row for section in sections for row in section.run()]
    assert len(rows) == 2 * len(_paper_table._METHODS)
    found = {(row.size, row.name): row for row in rows}
    assert found["colored-mnist", "erm"].time_ratio == 1
    assert all(row.seconds and row.peak_bytes for row in rows)
    shown = text(rows)
    for part in ("0.0278 / 0.155", "4.17 / 0.15", "– / 75", "CMA (speed): direct", "On a CPU few steps"):
        assert part in shown


def test_memory_counts_parameters_moments_and_images(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny("colored-mnist", 2)
    parameters = 16 * 128 + 128 + 129 * 2
    assert _paper_table._fixed_bytes(data) == 4 * (3 * parameters + 8 * 16)


def test_what_does_not_fit_is_listed_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_paper_table, "_SETS", (tiny("office-home", 40),))
    (section,) = paper_plan(CPU, quick=True, memory_limit=2**20)
    rows = {row.name: row for row in section.run()}
    assert rows["cma-speed"].seconds is None
    assert "not run" in rows["cma-speed"].note
    assert rows["cma"].seconds
    assert "needs about" in text(list(rows.values()))


def test_a_route_that_refuses_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("momentalign.closed_form.DIRECT_LIMIT", 10)
    need, note = _paper_table._need("cma-speed", tiny("office-home", 65).size)
    assert need > 2**60
    assert note == "the direct route refuses Hessians of 65 classes, not run"


def test_sizes_are_the_paper_s() -> None:
    sizes = {data.name: (data.size.n, data.size.d, data.size.C) for data in _paper_table._SETS}
    assert sizes == {
        "colored-mnist": (128, 128, 2),
        "rotated-mnist": (320, 128, 10),
        "vlcs": (96, 384, 5),
        "pacs": (96, 384, 7),
        "terra-incognita": (96, 384, 10),
        "office-home": (96, 384, 65),
    }


def test_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "--paper", "--dry-run", "--out", str(tmp_path / "bench.json")])
    assert done.exit_code == 0
    assert "training step, OfficeHome (65)" in done.output
    quick = CliRunner().invoke(app, ["bench", "--paper", "--quick", "--dry-run"])
    assert "OfficeHome" not in quick.output
    assert "RotatedMNIST" in quick.output
