"""Runs whose loss stopped being a number: what counts of them, and who says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from momentalign.probing import make_probe_config, run_probe
from momentalign.selection import candidates, read_runs, select, set_aside
from tests.probing.problems import spurious_data, write_csv
from tests.runs.fake_sweep import make_config, record, write_domainbed_run, write_run

pytestmark = pytest.mark.slow

ABC = ("a", "b", "c")
BAD = (None, float("nan"), float("inf"))


def run(folder, name, values, losses, *, test=("c",), number=0, **more):
    """Accuracies of all domains and the loss at steps 0, 100 and so on."""
    lines = []
    for place, (value, loss) in enumerate(zip(values, losses, strict=True)):
        lines += [record(100 * place, "accuracy", value, domain, split) for domain in ABC for split in ("in", "out")]
        lines.append(record(100 * place, "loss", loss))
    config = make_config(dataset="toy", test_domains=list(test), hparams_seed=number)
    return write_run(folder, config, lines, name=name, domains=ABC, **more)


def chosen(folder, rule):
    return [(row.run, row.step, row.test) for row in select(read_runs(folder), rule).itertuples()]


@pytest.mark.parametrize("bad", BAD)
def test_nothing_counts_from_the_divergence_on(tmp_path, bad):
    run(tmp_path, "lucky", (0.2, 0.5, 0.9, 0.9), (0.7, 0.6, bad, 0.5), number=1)
    run(tmp_path, "honest", (0.2, 0.3, 0.3, 0.4), (0.7, 0.6, 0.6, 0.6))
    run(tmp_path, "hopeless", (0.9, 0.9), (bad, bad), number=2)
    assert chosen(tmp_path, "oracle") == [("honest", 300, 0.4)]
    assert chosen(tmp_path, "training-domain") == [("lucky", 100, 0.5)]


@pytest.mark.parametrize(("which", "step"), [("c", 0), ("ac", 0), ("none", 200)])
def test_leave_one_domain_out_ends_where_one_of_its_runs_does(tmp_path, which, step):
    for name, test in (("c", ("c",)), ("ac", ("a", "c")), ("bc", ("c", "b"))):
        losses = (0.7, None, None) if name == which else (0.7, 0.6, 0.5)
        run(tmp_path, name, (0.3, 0.4, 0.9), losses, test=test)
    assert [found[:2] for found in chosen(tmp_path, "leave-one-domain-out")] == [("c", step)]


def probe(folder, number, validation, loss, **more):
    config = make_config(dataset="birds", test_domains=[], hparams_seed=number, setting="probe", **more)
    lines = []
    for step, value, logged in ((0, 0.99, 1.0), (300, validation, loss)):
        lines += [record(step, "worst_group_accuracy", value, split=split) for split in ("val", "test")]
        lines.append(record(step, "loss", logged))
    write_run(folder, config, lines, name=str(number), domains=("land", "water"))


def test_worst_group_does_not_take_a_run_that_diverged(tmp_path):
    probe(tmp_path, 0, 0.5, 0.3)
    probe(tmp_path, 1, 0.9, None)
    assert chosen(tmp_path, "worst-group") == [("0", 300, 0.5)]
    assert list(candidates(read_runs(tmp_path), "worst-group")["run"]) == ["0"]
    assert list(set_aside(read_runs(tmp_path), "worst-group")["run"]) == ["1"]


def test_only_the_loss_of_the_run_itself_counts(tmp_path):
    folder = run(tmp_path, "x", (0.2, 0.9), (0.7, 0.6))
    others = [record(100, "hessian", None), record(100, "loss", None, "a", "in"), record(100, "step_seconds", None)]
    with (folder / "records.jsonl").open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in others))
    assert chosen(tmp_path, "oracle") == [("x", 100, 0.9)]
    assert read_runs(tmp_path).problems == []


@pytest.mark.parametrize("bad", BAD)
def test_runs_of_domainbed_diverge_too(tmp_path, bad):
    accuracies = {f"env{i}_{split}_acc": 0.9 for i in range(3) for split in ("in", "out")}
    write_domainbed_run(tmp_path, "bad", [{"step": 0, **accuracies}, {"step": 100, "loss": bad, **accuracies}])
    lower = dict.fromkeys(accuracies, 0.4)
    write_domainbed_run(tmp_path, "good", [{"step": 100, **lower}], hparams_seed=1)
    assert chosen(tmp_path, "oracle") == [("good", 100, 0.4)]
    assert chosen(tmp_path, "training-domain") == [("bad", 0, 0.9)]
    assert read_runs(tmp_path).problems == [
        "bad: erm diverged; from the record at step 100 on its loss is not finite and its accuracies do not count."
    ]


def test_each_run_is_named_and_many_are_counted(tmp_path):
    for number in range(12):
        run(tmp_path, f"r{number:02d}", (0.2, 0.9), (0.7, None), number=number)
    sweep = read_runs(tmp_path)
    assert len(sweep.problems) == 11
    assert "r00: erm diverged; from the record at step 100 on" in sweep.problems[0]
    assert sweep.problems[-1] == "Also diverged, 2 of 12 runs: r10, r11."
    assert dict(sweep.diverged()) == {f"r{number:02d}": 100 for number in range(12)}


def test_sets_that_were_tried_are_set_aside_and_others_are_not(tmp_path):
    run(tmp_path, "diverged", (0.2, 0.9), (0.7, None), number=0)
    stopped = {"status": "failed", "error": "The loss is not finite at step 100.", "diverged_at": 100}
    run(tmp_path, "stopped", (0.2, 0.9), (0.7, 0.6), number=1, **stopped)
    run(tmp_path, "failed", (0.2, 0.9), (0.7, None), number=4, status="failed", error="RuntimeError: no")
    run(tmp_path, "half", (0.2, 0.9), (0.7, None), number=2, status="running")
    run(tmp_path, "whole", (0.2, 0.9), (0.7, 0.6), number=3)
    sweep = read_runs(tmp_path)
    aside = set_aside(sweep, "oracle")
    assert list(aside["run"]) == ["diverged", "stopped"]
    assert list(aside) == ["dataset", "algorithm", "test_domain", "trial", "hparams_seed", "run", "setting"]
    assert list(set_aside(sweep, "training-domain")["run"]) == ["stopped"]
    # Without its pairs no set was tried for this rule, diverged or not.
    assert len(set_aside(sweep, "leave-one-domain-out")) == 0
    assert len(set_aside(sweep, "worst-group")) == 0


def test_a_probe_that_ended_with_its_loss_counts_as_diverged(tmp_path):
    path = write_csv(spurious_data(160, 80, features=4), tmp_path / "features.csv")
    config = make_probe_config(path, "vrex", solver="sgd", hparams={"lr": 1e300, "weight": 1e4})
    with pytest.raises(ValueError, match="loss is not finite"):
        run_probe(config, tmp_path / "runs" / "wild")
    sweep = read_runs(tmp_path / "runs")
    assert list(sweep.diverged().index) == ["wild"]
    assert len(sweep.problems) == 1
    assert sweep.problems[0].startswith("wild: failed (The loss is not finite at step ")
    assert len(select(sweep, "worst-group")) == 0


def test_reading_and_choosing_do_without_torch(tmp_path: Path):
    run(tmp_path, "x", (0.2, 0.9), (0.7, 0.6))
    program = (
        "import sys; from momentalign.selection import read_runs, select; "
        "select(read_runs(sys.argv[1]), 'oracle'); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
