"""What of a plan is left to do, the final runs of worst-group selection among it."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from momentalign.cli._sweep_output import _sweep_bar, print_remaining
from momentalign.runs import find_clashes
from momentalign.sweep import make_probe_plan, remaining
from momentalign.sweep._jobs import Advance
from tests.runs.fake_sweep import record, write_run
from tests.sweep.engines import Here


def write(out, run, status="finished", **about):
    """A run whose set does the better the higher its number is."""
    value = 0.5 + run.hparams_seed / 100
    lines = [record(4, "worst_group_accuracy", value, split=split) for split in ("val", "test")]
    write_run(out, run.to_dict(), lines, name=run.hash(), status=status, **about)


@pytest.fixture
def plan(grouped):
    return make_probe_plan([grouped], ["erm", "hessian-matching"], trials=3)


def names(runs):
    return {(run.algorithm, run.hparams_seed, run.trial) for run in runs}


def finals(plan, algorithm, *sets):
    return [
        run for (_, name, number), runs in plan.finals.items() if name == algorithm and number in sets for run in runs
    ]


def test_nothing_is_done_yet(plan, tmp_path):
    left = remaining(plan, tmp_path / "nowhere")
    assert left.runs == plan.runs
    assert left.finals == plan.number_of_finals == 2 * (1 + 5)


def test_finals_are_named_once_the_first_trials_are_done(plan, tmp_path):
    out = tmp_path / "runs"
    for run in plan.runs:
        if run.algorithm == "hessian-matching":
            write(out, run)
    left = remaining(plan, out)
    best = finals(plan, "hessian-matching", 2, 3, 4, 5, 6)
    assert names(left.runs) == {("erm", 0, 0), *names(best)}
    assert left.finals == 2  # of erm, whose only set has yet to be tried
    for run in plan.runs[:1]:
        write(out, run)
    left = remaining(plan, out)
    assert names(left.runs) == names([*finals(plan, "erm", 0), *best])
    assert left.finals == 0


def test_finals_that_are_done_are_not_counted_again(plan, tmp_path):
    out = tmp_path / "runs"
    done = [*plan.runs, *finals(plan, "erm", 0), *finals(plan, "hessian-matching", 5, 6)]
    for run in done:
        write(out, run)
    assert names(remaining(plan, out).runs) == names(finals(plan, "hessian-matching", 2, 3, 4))
    for run in finals(plan, "hessian-matching", 2, 3):
        write(out, run)
    fails, stops = finals(plan, "hessian-matching", 4)
    write(out, fails, "failed", error="no")
    write(out, stops, "failed", error="no room", disk_full=True)
    assert remaining(plan, out).runs == (stops,)
    assert set(remaining(plan, out, retry_failed=True).runs) == {fails, stops}


def test_a_grid_that_grew_counts_the_finals_that_it_may_need(grouped, tmp_path):
    out = tmp_path / "runs"
    before = make_probe_plan([grouped], ["hessian-matching"], trials=3, hparams=5)
    for run in (*before.runs, *finals(before, "hessian-matching", *range(5))):
        write(out, run)
    assert remaining(before, out) == ((), 0, ())
    left = remaining(make_probe_plan([grouped], ["hessian-matching"], trials=3), out)
    assert names(left.runs) == {("hessian-matching", number, 0) for number in (5, 6)}
    assert left.finals == 2 * 2  # the other sets have theirs


def printed(plan, out):
    console = Console(file=io.StringIO(), width=200)
    print_remaining(console, plan, Here(), out)
    return console.file.getvalue()


def test_what_remains_is_printed_before_it_starts(plan, tmp_path):
    out = tmp_path / "runs"
    assert printed(plan, out) == "On 1 process.\n"
    for run in plan.runs:
        write(out, run)
    assert printed(plan, out) == "12 of them are left to do.\nOn 1 process.\n"
    for run in [*finals(plan, "erm", 0), *finals(plan, "hessian-matching", 2, 3, 4, 5, 6)]:
        write(out, run)
    assert printed(plan, out) == "0 of them are left to do.\n"


def test_finals_that_cannot_stand_in_one_table_are_found(grouped, plan, tmp_path):
    out = tmp_path / "runs"
    other = make_probe_plan([grouped], ["erm"], trials=3, overrides={"components": 2})
    for run in finals(other, "erm", 0):
        write(out, run)
    assert find_clashes(plan.all_runs, out) == {"hparams": 2}
    for run in finals(plan, "erm", 0):
        write(out, run)
    assert find_clashes(plan.all_runs, out) == {"hparams": 2}


def test_the_first_estimate_waits_for_the_time_of_a_step(monkeypatch):
    """A process that starts late, and its first step, say nothing about the others."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("momentalign.cli._output.time.monotonic", lambda: clock.now)
    console = Console(file=io.StringIO(), width=200)
    plan, tally = SimpleNamespace(runs=[1, 2], number_of_finals=0), SimpleNamespace(finished=0, before=0, failed={})
    with _sweep_bar(console, plan) as update:
        for clock.now, name, share in (
            (4.0, "a", 0.0),
            (5.0, "a", 0.001),
            (6.0, "a", 0.001),
            (9.0, "b", 0.001),
            (10.0, "a", 0.021),
        ):
            update(tally, Advance(SimpleNamespace(name=name), share))
    said = [line for line in console.file.getvalue().splitlines() if "left" in line]
    assert said == ["0 of 2 runs: 1% done, about 1 min 39 s left."]
