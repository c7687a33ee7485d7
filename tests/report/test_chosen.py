"""What a rule chose: set, step and hyper-parameters of each cell."""

import csv
import io
from pathlib import Path

import pytest
from typer.testing import CliRunner

from momentalign.cli import app
from momentalign.report import chosen_table
from momentalign.selection import read_runs
from tests.runs.fake_sweep import make_config, record, write_fake_probes, write_run

pytestmark = pytest.mark.slow


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """CMA and ERM, domains a and b, two sets: the higher number is better from step 10 on, at step 0 for ERM on b."""
    for algorithm, own in (("cma", {"gradient_weight": 30.0, "anneal_steps": 5}), ("erm", {})):
        for test, other in (("a", "b"), ("b", "a")):
            for number, lr in enumerate((1e-3, 0.00025119)):
                hparams = {"lr": lr, "batch_size": 64, **own}
                if number and own:
                    hparams["gradient_weight"] = 1234.56
                config = make_config(
                    algorithm=algorithm, test_domains=[test], hparams_seed=number, hparams=hparams, steps=11
                )
                lines = []
                for step in (0, 10):
                    early = (algorithm, test) == ("erm", "b") and step == 0
                    out = 0.9 if early else 0.5 + step / 100 + number / 10
                    lines += [record(step, "accuracy", out, other, split) for split in ("in", "out")]
                    lines += [record(step, "accuracy", out - 0.25, test, split) for split in ("in", "out")]
                write_run(tmp_path, config, lines, name=f"{algorithm}-{test}-{number}", domains=("a", "b"))
    return tmp_path


def test_a_row_for_each_method_and_test_domain(sweep: Path) -> None:
    lines = chosen_table(read_runs(sweep), "training-domain").splitlines()
    assert [line.split(maxsplit=6) for line in lines[3:7]] == [
        ["ERM", "a", "0", "1", "10", "45.0", "lr 0.0002512"],
        ["ERM", "b", "0", "1", "0", "65.0", "lr 0.0002512"],
        ["CMA", "a", "0", "1", "10", "45.0", "lr 0.0002512, gradient_weight 1235"],
        ["CMA", "b", "0", "1", "10", "45.0", "lr 0.0002512, gradient_weight 1235"],
    ]


def test_csv_is_not_rounded(sweep: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(chosen_table(read_runs(sweep), "oracle", "csv"))))
    assert [(row["algorithm"], row["test_domain"], row["run"], row["step"]) for row in rows] == [
        (algorithm, test, f"{algorithm}-{test}-1", "10") for algorithm in ("erm", "cma") for test in ("a", "b")
    ]
    assert [row["hparams.gradient_weight"] for row in rows] == ["", "", "1234.56", "1234.56"]
    assert [row["hparams.lr"] for row in rows] == ["0.00025119"] * 4
    assert not {"hparams.batch_size", "hparams.anneal_steps"} & set(rows[0])


def test_probes_have_no_test_domain(tmp_path: Path) -> None:
    write_fake_probes(tmp_path, hparams=3, trials=2)
    text = chosen_table(read_runs(tmp_path), "worst-group")
    assert text.startswith("waterbirds (probe): what worst-group selection chose")
    assert "CMA     worst group      1    2   300" in text
    assert "defaults" not in text  # set 0 of a grid is its first


def test_names_add_no_markup(tmp_path: Path) -> None:
    config = make_config(test_domains=["<b>|x\x1b[31m"])
    lines = [record(9, "accuracy", 0.5, name, split) for name in ("a", "<b>|x\x1b[31m") for split in ("in", "out")]
    write_run(tmp_path, config, lines, domains=("a", "<b>|x\x1b[31m"))
    for form in ("text", "markdown"):
        assert "\x1b" not in chosen_table(read_runs(tmp_path), "oracle", form)
    assert "| &lt;b&gt;\\|x" in chosen_table(read_runs(tmp_path), "oracle", "markdown")


def test_the_command_adds_it_below_the_table(sweep: Path) -> None:
    def command(*words: str) -> str:
        done = CliRunner().invoke(app, ["table", str(sweep), *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    for form in ("text", "markdown"):
        plain = command("--format", form)
        both = command("--format", form, "--chosen")
        assert both.startswith(plain)
        assert chosen_table(read_runs(sweep), "training-domain", form).strip() in both
    assert command("--format", "csv", "--chosen") == chosen_table(read_runs(sweep), "training-domain", "csv")
    done = CliRunner().invoke(app, ["table", str(sweep), "--chosen", "--format", "latex"])
    assert isinstance(done.exception, ValueError)
    assert "'--chosen'" in str(done.exception)
