"""`momentalign sweep`, with real processes."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from momentalign.cli import app
from momentalign.report import accuracy_table
from momentalign.selection import read_runs, select
from tests.encoders.models import save_model, write_images

pytestmark = pytest.mark.slow

SMALL = ["--no-baselines", "--trials", "1", "--hparams", "1", "--steps", "3", "--device", "cpu", "--test-domains=c"]
ROWS = Path(__file__).with_name("rows.csv")


@pytest.fixture
def shared(engine, monkeypatch):
    """The command with the tests' own processes, which stay when it ends."""
    monkeypatch.setattr("momentalign.cli._sweep.make_engine", lambda *_, **__: engine)
    monkeypatch.setattr(engine, "close", lambda: None)


def command(*arguments):
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)])


def test_added_methods_are_named(monkeypatch):
    monkeypatch.setattr("momentalign.cli._sweep.make_engine", lambda *_, **__: None)
    monkeypatch.setattr("momentalign.cli._sweep.run_plan", lambda *_, **__: None)
    note = "Added for comparison: logistic-regression-cv; --no-baselines omits them."
    algorithms = ("--algorithms", "erm,logistic-regression")
    assert note in command(ROWS, *algorithms).output
    assert "Added for comparison" not in command(ROWS, *algorithms, "--no-baselines").output


def test_a_sweep_ends_with_one_table_and_the_next_commands(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # notes are not wrapped
    out = tmp_path / "runs"
    result = command(ROWS, "--algorithms", "erm,cma", *SMALL, "--jobs", "1", "-o", out)
    assert result.exit_code == 0, result.output
    assert (
        "2 runs: 1 data set, 2 algorithms, 1 choice of test domains, 1 set of hyper-parameters, 1 trial;"
        in result.output
    )
    assert re.search(r"On 1 process of \d+ threads?\.", result.output)
    sweep = read_runs(out)
    assert accuracy_table(sweep, "training-domain").to_text() in result.output
    assert result.output.count("test accuracy in %") == 1
    assert f"momentalign table {out} --select extrapolated (or oracle)" in result.output
    assert "2 runs done now, 0 before, 0 failed." in result.output
    assert f"momentalign report {out} -o report.html" in result.output
    again = command(ROWS, "--algorithms", "erm,cma", *SMALL, "--jobs", "1", "-o", out)
    assert again.exit_code == 0
    assert "0 of them are left to do." in again.output
    assert "0 runs done now, 2 before, 0 failed." in again.output


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path, shared):
    result = command(ROWS, "--algorithms", "erm", *SMALL, "-o", tmp_path / "runs", "--dry-run")
    assert result.exit_code == 0
    assert "1 run: " in result.output
    assert result.output.rstrip().endswith("Nothing was run.")
    assert list(tmp_path.iterdir()) == []


def test_failures_are_named_and_tried_again_when_told(tmp_path, shared):
    bad = "tests.sweep.algorithms:Raises"
    result = command(ROWS, "--algorithms", f"erm,{bad}", *SMALL, "-o", tmp_path)
    assert result.exit_code == 1
    assert "no such luck" in result.output
    assert "1 run done now, 0 before, 1 failed." in result.output
    assert "--retry-failed" in result.output


def test_a_damaged_run_is_done_anew_when_told(tmp_path, shared):
    words = (ROWS, "--algorithms", "erm", *SMALL, "-o", tmp_path)
    assert command(*words).exit_code == 0
    (about,) = tmp_path.glob("*/run.json")
    before = (about.parent / "records.jsonl").read_text()
    about.write_text("{")
    result = command(*words)
    assert result.exit_code == 1
    assert "0 runs done now, 0 before, 1 failed." in result.output
    assert f"{about} is damaged (" in result.output
    assert "Use --retry-failed to start the run again." in result.output
    result = command(*words, "--retry-failed")
    assert result.exit_code == 0
    assert "1 run done now, 0 before, 0 failed." in result.output
    assert json.loads(about.read_text())["status"] == "finished"
    assert len((about.parent / "records.jsonl").read_text().splitlines()) == len(before.splitlines())


@pytest.fixture
def pictures(tmp_path):
    """Two folders of images, one of them with a file that is none, and an encoder for both."""
    save_model("resnet", tmp_path / "resnet")
    for name in ("good", "broken"):
        write_images(tmp_path / name, per_class=5)
    (tmp_path / "broken" / "night" / "dog" / "3.png").write_bytes(b"no image")
    return tmp_path


def test_a_broken_image_fails_its_runs_alone_or_is_left_out(pictures, shared):
    words = [pictures / "good", pictures / "broken", "--algorithms", "erm", "--encoder", pictures / "resnet"]
    words += [*SMALL[1:-1], "--set", "batch_size=4", "--test-domains=day", "-o", pictures / "runs"]
    result = command(*words)
    assert result.exit_code == 1, result.output
    assert "1 run done now, 0 before, 1 failed." in result.output
    sweep = read_runs(pictures / "runs")
    assert dict(zip(sweep.runs["dataset"], sweep.runs["status"], strict=True)) == {
        str(pictures / "good"): "finished",
        str(pictures / "broken"): "failed",
    }
    assert re.search(r"failed \(.*night/dog/3.png should be an image, but cannot be read", result.output)
    result = command(*words, "--retry-failed", "--skip-bad-files")
    assert result.exit_code == 0, result.output
    assert "Note: broken: 1 unreadable file skipped: night/dog/3.png." in result.output
    assert result.output.count("unreadable file") == 1
    assert "1 run done now, 1 before, 0 failed." in result.output


def test_probes_are_runs_like_any_other(tmp_path, grouped, shared):
    out = tmp_path / "runs"
    options = ["--setting", "probe", "--algorithms", "erm,hessian-matching", "--trials", "3"]
    result = command(grouped, *options, "-o", out)
    assert result.exit_code == 0, result.output
    number = 1 + 7 + 2 * (1 + 5)
    assert f"{number} runs: 1 data set, 2 algorithms, 7 sets of hyper-parameters, 3 trials;" in result.output
    assert f"{number} runs done now, 0 before, 0 failed." in result.output
    chosen = select(read_runs(out), "worst-group")
    assert list(chosen["trial"]) == [0, 1, 2, 0, 1, 2]
    assert "birds (probe): test accuracy in %" in result.output
    statuses = [json.loads(path.read_text())["status"] for path in out.glob("*/run.json")]
    assert statuses == ["finished"] * number


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["colored-digits", "--algorithms", "cmaa"], "Did you mean 'cma'?"),
        (["colored-digits", "--algorithms", ""], "A sweep needs at least one algorithm."),
        (["colored-digit", "--algorithms", "erm"], "colored-digits"),
        (["colored-digits", "--algorithms", "erm", "--select", "best"], "'--select' should be one of"),
        (["colored-digits", "--algorithms", "erm", "--engine", "slurm"], "'--engine' should be one of 'local', 'ray'"),
        (
            ["colored-digits", "--algorithms", "erm", "--setting", "tune"],
            "'--setting' should be one of 'finetune', 'probe'",
        ),
        (["colored-digits", "--algorithms", "erm", "--set", "lr"], "'--set' should look like NAME=VALUE"),
        (["colored-digits", "--algorithms", "erm", "--jobs", "0"], "'--jobs' should be at least 1"),
        (["colored-digits", "--algorithms", "erm", "--per-gpu", "0"], "'--per-gpu' should be at least 1"),
        (["colored-digits", "--algorithms", "erm", "--test-domains", "90"], "'--test-domains' should be one of"),
        (["colored-digits", "--algorithms", "erm", "--out", "pyproject.toml"], "'--out' should name a folder"),
        (["colored-digits", "--algorithms", "erm", "--reach=-1"], "'--reach' should be finite and not below 0"),
        (
            ["colored-digits", "--algorithms", "erm", "--select", "oracle", "--reach", "3"],
            "'--reach' has no effect with --select oracle. Omit it.",
        ),
        (
            [ROWS, "--algorithms", "erm", "--select", "train-groups", "--no-train-accuracy"],
            "'--select train-groups' needs the accuracy on training rows. Omit --no-train-accuracy.",
        ),
        (["colored-digits", "--algorithms", "cma", "--preset", "save"], "Did you mean 'safe'?"),
    ],
)
def test_bad_options_are_one_line(tmp_path, arguments, message):
    result = command(*arguments)
    assert isinstance(result.exception, ValueError), result.output
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_time_left_is_printed_after_a_second(tmp_path, shared):
    result = command(ROWS, "--algorithms", "erm", *SMALL, "--steps", "6000", "-o", tmp_path / "runs")
    assert re.search(r"0 of 1 runs: \d+% done, about .+ left\.", result.output)


def test_nothing_is_tried_where_training_cannot_run(tmp_path, monkeypatch):
    for module in ("momentalign.training._devices", "momentalign._extras"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.setitem(sys.modules, "lightning.fabric", None)
    result = CliRunner().invoke(app, ["sweep", "colored-digits", "--algorithms", "erm", "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, ModuleNotFoundError)
    assert "Training needs Lightning Fabric, which is not installed." in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_data_that_changed_are_not_added_to_a_sweep(tmp_path, shared, engine, monkeypatch):
    table = tmp_path / "t.csv"
    rows = [f"{k},{k % 2},{'abc'[k % 3]}" for k in range(60)]
    table.write_text("\n".join(["x,y,domain", *rows]))
    words = ["sweep", str(table), "--trials", "1", "--hparams", "1", "--steps", "2", "--set", "batch_size=4"]
    words += ["--no-baselines", "--device", "cpu", "-o", str(tmp_path / "out"), "--test-domains", "a", "--algorithms"]
    assert CliRunner().invoke(app, [*words, "erm"]).exit_code == 0
    table.write_text("\n".join(["x,y,domain", *reversed(rows)]))
    closed = []
    monkeypatch.setattr(engine, "close", lambda: closed.append(True))
    refused = CliRunner().invoke(app, [*words, "erm,coral"])
    assert closed  # no process is left
    assert f"has 1 run from before {table} changed. Use another --out, or remove them." in str(refused.exception)
    assert len(read_runs(tmp_path / "out").runs) == 1
