"""Runs that a crash, a disk or another program has damaged: named, left out, and no hindrance to the others."""

import json

import pytest
from typer.testing import CliRunner

from momentalign.cli import app, main
from momentalign.report import write_report
from momentalign.runs import RunConfig, RunState, is_busy, read_records, read_run, read_runs, run_state
from tests.runs.fake_sweep import make_config, record, write_domainbed_run, write_fake_sweep, write_run

LINES = [record(0, "loss", 1.0)]
BIG = 2**63


@pytest.fixture
def two(tmp_path):
    """A good run and one to be damaged."""
    write_run(tmp_path, make_config(trial=1), LINES, name="good")
    return write_run(tmp_path, make_config(), LINES, name="bad")


def with_value(folder, text, *keys):
    """Replace a value of run.json by JSON text."""
    about = json.loads((folder / "run.json").read_text())
    inner = about
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = "@"
    (folder / "run.json").write_text(json.dumps(about).replace('"@"', text))


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("config", "trial"), str(BIG)),
        (("config", "steps"), "Infinity"),
        (("config", "hparams_seed"), "1.5"),
        (("config", "trial"), "true"),
        (("config", "hparams", "lr"), "NaN"),
        (("config", "hparams"), "[]"),
        (("config", "algorithm"), "null"),
        (("config", "test_domains"), '"+90%"'),
        (("config", "test_domains"), "[1]"),
        (("config", "encoder"), "{}"),
        (("domains",), "[null]"),
        (("diverged_at",), '"x"'),
        (("diverged_at",), str(BIG)),
        (("classes",), "3"),
        (("error",), "[1]"),
        (("versions",), "[1]"),
        (("rows",), '{"a": {"in": "x"}}'),
        (("started",), "5"),
        (("status",), "[]"),
        (("status",), '"gone"'),
        (("hash",), "{}"),
        (("data",), "{}"),
    ],
)
def test_a_wrong_value_is_named_and_its_run_left_out(two, keys, text):
    with_value(two, text, *keys)
    sweep = read_runs(two.parent)
    assert list(sweep.runs.index) == ["good"]
    (problem,) = sweep.problems
    assert problem.startswith("bad: its run.json is damaged (")
    assert problem.endswith("; left out.")
    assert problem.isprintable()
    with pytest.raises(ValueError, match=r"run\.json is damaged"):
        read_run(two)


@pytest.mark.parametrize("name", ["run.json", "records.jsonl"])
def test_what_is_no_file_is_named(two, name):
    (two / name).unlink()
    (two / name).mkdir()
    sweep = read_runs(two.parent)
    assert set(sweep.records["run"]) == {"good"}
    assert sweep.problems[0].startswith(f"bad: its {name} cannot be read (")
    assert not is_busy(two)
    with pytest.raises((ValueError, OSError), match=name):
        (read_run if name == "run.json" else read_records)(two)


@pytest.mark.parametrize(
    "bad",
    [
        f'{{"step": {BIG}, "metric": "loss", "value": 1}}',
        '{"step": 9007199254740992, "metric": "loss", "value": 1}',
        '{"step": -1, "metric": "loss", "value": 1}',
        '{"step": 1.5, "metric": "loss", "value": 1}',
        '{"step": true, "metric": "loss", "value": 1}',
        '{"step": Infinity, "metric": "loss", "value": 1}',
        '{"step": 1, "metric": 7, "value": 1}',
        '{"step": 1, "metric": "loss", "value": "1"}',
        '{"step": 1, "metric": "loss", "value": true}',
        b'{"step": 1, "metric": "\xff", "value": 1}',
    ],
)
def test_a_damaged_line_has_its_file_and_number(two, bad):
    with (two / "records.jsonl").open("ab") as file:
        file.write((bad.encode() if isinstance(bad, str) else bad) + b"\n")
    sweep = read_runs(two.parent)
    assert list(sweep.records["value"]) == [1.0, 1.0]
    assert sweep.problems == ["bad: line 2 of its records.jsonl cannot be read and is ignored."]
    with pytest.raises(ValueError, match=r"bad/records\.jsonl, line 2 should be a record, but cannot be read\. Remove"):
        read_records(two)


@pytest.mark.parametrize("keys", [("args", "trial_seed"), ("args", "test_envs"), ("args",), ("step",), ("hparams",)])
@pytest.mark.parametrize("text", [str(BIG), "Infinity", '"x"', "[-1]", "[[]]", "null"])
def test_runs_of_domainbed_too(tmp_path, keys, text):
    values = {f"env{i}_{split}_acc": 0.5 for i in range(3) for split in ("in", "out")}
    write_run(tmp_path, make_config(trial=1), LINES, name="good")
    folder = write_domainbed_run(tmp_path, "bad", [{"step": 0, **values}])
    line = json.loads((folder / "results.jsonl").read_text())
    inner = line if len(keys) == 1 else line[keys[0]]
    inner[keys[-1]] = "@"
    (folder / "results.jsonl").write_text(json.dumps(line).replace('"@"', text) + "\n")
    sweep = read_runs(tmp_path)
    assert list(sweep.runs.index) == ["good"]
    assert sweep.problems[0].startswith("bad: its results.jsonl ")


def test_a_domain_with_an_absurd_number_takes_no_memory(tmp_path):
    write_run(tmp_path, make_config(trial=1), LINES, name="good")
    write_domainbed_run(tmp_path, "bad", [{"step": 0, "env99999999999_in_acc": 0.5}])
    assert list(read_runs(tmp_path).runs.index) == ["good"]


def test_a_damaged_plan_is_ignored(two):
    (two.parent / ".plans").mkdir()
    (two.parent / ".plans" / "a.json").write_text("{")
    (two.parent / ".plans" / "b.json").write_text('{"runs": [{"run": {}}]}')
    problems = read_runs(two.parent).problems
    assert [line.rpartition("/")[2] for line in problems] == [
        f"{name}.json should list planned runs, but cannot be read; ignored." for name in "ab"
    ]


def test_hyper_parameters_of_any_kind_are_shown(tmp_path):
    folders = write_fake_sweep(tmp_path / "runs", algorithms=("erm",), trials=1, hparams=2)
    with_value(folders[0], '{"a": [1]}', "config", "hparams", "anneal_steps")
    sweep = read_runs(tmp_path / "runs")
    assert sweep.problems == []
    assert write_report(sweep, tmp_path / "page.html")


def test_the_table_goes_on_without_a_damaged_run(tmp_path):
    folders = write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=1)
    with_value(folders[0], str(BIG), "config", "steps")
    result = CliRunner().invoke(app, ["table", str(tmp_path)])
    assert result.exit_code == 0
    line = f"{folders[0].name}: its run.json is damaged ('steps' should be a whole number from 0 to 2^63 - 1, but is"
    assert [text for text in result.output.splitlines() if text.startswith(line)]
    assert "ERM" in result.stdout


@pytest.mark.parametrize("command", ["table", "report"])
def test_no_run_left_is_one_line(tmp_path, command, monkeypatch, capsys):
    folder = write_run(tmp_path / "runs", make_config(), LINES, name="bad")
    (folder / "run.json").write_text(100_000 * "[")
    monkeypatch.setattr("sys.argv", ["momentalign", command, str(tmp_path / "runs"), "-o", str(tmp_path / "a.html")])
    if command == "table":
        monkeypatch.setattr("sys.argv", ["momentalign", command, str(tmp_path / "runs")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == ("Error: None of the runs can be read. bad: its run.json is damaged (nested too deeply); left out.")


def test_a_sweep_sees_a_damaged_run_as_one_to_repeat(two):
    with_value(two, str(BIG), "config", "trial")
    config = RunConfig(**{**make_config(), "test_domains": ("-90%",)})
    status, advice = run_state(two, config)
    assert status is RunState.DAMAGED
    assert advice is not None
    assert advice.startswith(f"{two / 'run.json'} is damaged ('trial' should be a whole number")
    assert advice.endswith("Use --retry-failed to start the run again.")
