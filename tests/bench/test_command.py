import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from momentalign.bench import BenchmarkGroup, BenchmarkRow
from momentalign.bench._penalty import BatchSize, penalty_rows
from momentalign.cli import app, main

pytestmark = pytest.mark.slow


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_quick_benchmark_writes_ratios(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "bench.json"
    done = run("bench", "--quick", "--out", str(out))
    assert done.exit_code == 0, done.output
    assert str(out) in done.stdout.replace("\n", "")
    content = json.loads(out.read_text())
    assert content["environment"]["torch"]
    rows = {(row["table"], row["name"]): row for row in content["rows"]}
    assert rows["penalty alone", "CMA, gram"]["time_ratio"] == 1
    assert rows["penalty alone", "dense Hessian per domain"]["memory_ratio"] > 1
    assert rows["whole step", "ERM"]["memory_ratio"] == 1
    assert [path.name for path in out.parent.iterdir()] == ["bench.json"]


def test_baselines_that_do_not_fit_are_listed_not_run() -> None:
    rows = {row.name: row for row in penalty_rows(BatchSize(6, 2, 3, 2), torch.device("cpu"), 0.0, 0, draws=1)}
    assert rows["dense Hessian per domain"].seconds is None
    assert "not run" in rows["dense Hessian per domain"].note
    assert rows["CMA, gram"].seconds is not None


@pytest.mark.parametrize("finished", [0, 1])
def test_an_interruption_keeps_what_was_measured(
    finished: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> list[BenchmarkRow]:
        raise KeyboardInterrupt

    groups = [BenchmarkGroup("first", lambda: [BenchmarkRow("growth", "n=1", "CMA, gram")])] * finished
    monkeypatch.setattr(
        "momentalign.bench.standard_plan", lambda *_, **__: [*groups, BenchmarkGroup("second", interrupted)]
    )
    out = tmp_path / "bench.json"
    done = CliRunner().invoke(app, ["bench", "--out", str(out)])
    assert done.exit_code == 130
    assert ("Saved what was measured" if finished else "Nothing was saved") in done.output
    assert out.exists() == bool(finished)


def test_dry_run_measures_nothing(tmp_path: Path) -> None:
    done = run("bench", "--dry-run", "--out", str(tmp_path / "bench.json"))
    assert done.exit_code == 0
    assert "penalty alone, n=96 d=384 C=65 K=3" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_is_answered_with_the_command_that_installs_it() -> None:
    program = "import sys; sys.modules['typer'] = None; from momentalign.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "The command line needs typer. Install it with: pip install 'momentalign[cli]'\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "--device", "abacus"], "'--device' should be auto or a device that torch can use"),
        (["bench", "--device", "meta"], "'--device' should be cpu or cuda, but is 'meta'."),
        (["bench", "--dry-run", "--out", "."], "'--out' should name a file, but . is a folder."),
        (["bench", "--memory", "much"], "--memory"),
        (["benhc"], "benhc"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["momentalign", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
