"""Sweeps with real processes and short runs."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from momentalign.runs import Claims
from momentalign.selection import read_runs
from momentalign.sweep import LocalEngine, _local, estimate_sweep, make_plan, run_sweep
from momentalign.sweep._jobs import Outcome
from momentalign.training import run
from tests.processes import listen

pytestmark = pytest.mark.slow

BAD = "tests.sweep.algorithms"
ROWS = str(Path(__file__).with_name("rows.csv"))
"""A table whose runs take milliseconds, so that it is the sweep that takes the time."""


def plan_of(*algorithms, **options):
    chosen = {"trials": 1, "hparams": 1, "steps": 3, "test_domains": ["c"], "baselines": False, **options}
    return make_plan([ROWS], algorithms or ["erm"], **chosen)


def statuses(out):
    return {path.parent.name: json.loads(path.read_text())["status"] for path in out.glob("*/run.json")}


def test_all_runs_are_done_once(tmp_path, engine):
    plan = plan_of("erm", "cma", trials=2)
    seen = []
    tally = run_sweep(plan, tmp_path / "runs", engine, progress=lambda tally, event: seen.append(event))
    assert (tally.finished, tally.before, tally.failed) == (4, 0, {})
    assert statuses(tmp_path / "runs") == {run.hash(): "finished" for run in plan.runs}
    assert len([event for event in seen if isinstance(event, Outcome)]) == 4
    sweep = read_runs(tmp_path / "runs")
    assert sweep.problems == []
    assert set(sweep.runs["algorithm"]) == {"erm", "cma"}
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(run.hash() for run in plan.runs)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    tally = run_sweep(plan, tmp_path / "runs", engine)
    assert (tally.finished, tally.before) == (0, 4)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_processes_are_used_again(tmp_path, engine):
    run_sweep(plan_of(trials=2), tmp_path / "a", engine)
    first = {worker.process.pid for worker in engine._workers}
    run_sweep(plan_of(trials=3, steps=2), tmp_path / "b", engine)
    assert {worker.process.pid for worker in engine._workers} == first


def test_processes_start_those_that_read_images_as_any_other_would(tmp_path, engine):
    (error,) = run_sweep(plan_of(f"{BAD}:Tells"), tmp_path, engine).failed.values()
    assert error.partition(" ")[0] == multiprocessing.get_start_method()


def test_a_failing_run_is_recorded_and_stops_nothing(tmp_path, engine):
    plan = plan_of(f"{BAD}:Raises", "erm")
    tally = run_sweep(plan, tmp_path, engine)
    failed = plan.runs[0].hash()
    assert tally.finished == 1
    assert list(tally.failed) == [failed]
    assert "no such luck" in tally.failed[failed]
    assert "\n" not in tally.failed[failed]
    about = json.loads((tmp_path / failed / "run.json").read_text())
    assert about["status"] == "failed"
    assert about["config"] == plan.runs[0].to_dict()
    assert any("no such luck" in problem for problem in read_runs(tmp_path).problems)
    # Left alone the next time, and tried again when told to.
    outcomes = []
    again = run_sweep(plan, tmp_path, engine, progress=lambda tally, event: outcomes.append(event))
    assert not any(isinstance(event, Outcome) for event in outcomes)
    assert list(again.failed) == [failed]
    run_sweep(plan, tmp_path, engine, retry_failed=True, progress=lambda tally, event: outcomes.append(event))
    assert len([event for event in outcomes if isinstance(event, Outcome)]) == 1


def test_the_run_of_a_process_that_dies_is_repeated_a_few_times(tmp_path, monkeypatch):
    monkeypatch.setattr(_local, "_RETRIES", 1)
    monkeypatch.setenv("MOMENTALIGN_TEST_SIGN", str(tmp_path / "sign"))
    plan = plan_of("erm", f"{BAD}:DiesOnce", f"{BAD}:Dies")
    engine = LocalEngine(1, accelerator="cpu")
    try:
        tally = run_sweep(plan, tmp_path / "runs", engine)
    finally:
        engine.close()
    assert (tmp_path / "sign").exists()
    assert tally.finished == 2
    error = "Lost 2 times: Its process ended by signal 9, perhaps out of memory."
    assert tally.failed == {plan.runs[2].hash(): error}
    assert json.loads((tmp_path / "runs" / plan.runs[2].hash() / "run.json").read_text())["error"] == error


@pytest.mark.parametrize("seen", [True, False])
def test_a_process_that_died_while_idle_fails_no_run(tmp_path, engine, seen, monkeypatch):
    run_sweep(plan_of(), tmp_path / "first", engine)
    for worker in engine._workers:
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.join()
        if not seen:  # it died after it was looked at, and handing over the job fails
            monkeypatch.setattr(worker.process, "is_alive", lambda: True)
    tally = run_sweep(plan_of("coral"), tmp_path / "second", engine)
    assert (tally.finished, tally.failed) == (1, {})


def test_a_process_that_died_leaves_its_gpu_to_the_next(monkeypatch):
    class Worker:
        """A process that takes every job and ends when told to."""

        def __init__(self, gpu, threads):
            self.gpu, self.job, self.process, self.alive = gpu, None, self, True

        def send(self, job):
            self.job = job
            return True

        def is_alive(self):
            return self.alive

        def terminate(self):
            self.alive = False

    monkeypatch.setattr(_local, "visible_gpus", lambda: ["0", "1"])
    monkeypatch.setattr(_local, "_Worker", Worker)
    engine = LocalEngine(per_gpu=2)
    assert (engine.slots, engine.per_gpu, engine.parallel) == (4, 2, 2)
    assert (LocalEngine(3).per_gpu, LocalEngine(1).parallel, LocalEngine(3, accelerator="cpu").parallel) == (2, 1, 3)
    for name in "abcd":
        engine.submit(name)
    assert [worker.gpu for worker in engine._workers] == ["0", "1", "0", "1"]
    engine._workers[0].job, engine._workers[0].alive = None, False
    engine.submit("e")
    assert [(worker.gpu, worker.job) for worker in engine._workers] == [("1", "b"), ("0", "c"), ("1", "d"), ("0", "e")]


def test_unfinished_runs_are_resumed(tmp_path, engine):
    plan = plan_of(steps=4, record_every=1)
    config = plan.runs[0]
    whole = tmp_path / "whole"
    run_sweep(plan, whole, engine)

    class Stop(BaseException):
        pass

    def stop(at):
        if at.done == 3:
            raise Stop

    half = tmp_path / "half"
    with pytest.raises(Stop):
        run(config, half / config.hash(), accelerator="cpu", progress=stop)
    assert statuses(half) == {config.hash(): "running"}
    tally = run_sweep(plan, half, engine)
    assert tally.finished == 1
    accuracies = [
        [
            (row.step, row.domain, row.split, row.value)
            for row in read_runs(out).records.itertuples()
            if row.metric == "accuracy"
        ]
        for out in (whole, half)
    ]
    assert accuracies[0] == accuracies[1]


def test_two_sweeps_share_a_folder(tmp_path, engine):
    plan = plan_of(f"{BAD}:Slow", trials=3, steps=6)
    other = LocalEngine(1, accelerator="cpu")
    tallies = []

    def second():
        tallies.append(run_sweep(plan, tmp_path, other))

    thread = threading.Thread(target=second)
    thread.start()
    try:
        tallies.append(run_sweep(plan, tmp_path, engine))
        thread.join()
    finally:
        other.close()
    assert sum(tally.finished for tally in tallies) == 3
    assert all(tally.finished + tally.before == 3 for tally in tallies)
    assert set(statuses(tmp_path).values()) == {"finished"}
    assert len(read_runs(tmp_path).runs) == 3


def test_sweeps_in_two_threads_leave_the_environment_as_it_was(monkeypatch):
    times = iter((0.1, 0.2))
    begun = threading.Semaphore(0)

    class Process:
        """The second to start takes longer than the first."""

        def __init__(self, **about):
            pass

        def start(self):
            begun.release()
            time.sleep(next(times))

    context = multiprocessing.get_context("spawn")
    monkeypatch.setattr(context, "Process", Process)
    before = dict(os.environ)
    threads = [threading.Thread(target=_local._Worker, args=(None, 3)) for _ in range(2)]
    for thread in threads:
        thread.start()
        begun.acquire(timeout=0.05)
    for thread in threads:
        thread.join()
    assert dict(os.environ) == before


def test_folders_of_other_runs_are_not_touched(tmp_path, engine):
    plan = plan_of("erm", "coral")
    folder = tmp_path / plan.runs[0].hash()
    folder.mkdir()
    (folder / "run.json").write_text('{"format": 1, "status": "finished", "config": {}}')
    tally = run_sweep(plan, tmp_path, engine)
    assert tally.finished == 1
    assert "another configuration" in tally.failed[folder.name]
    assert (folder / "run.json").read_text() == '{"format": 1, "status": "finished", "config": {}}'


def test_weights_need_not_stay(tmp_path, engine):
    plan = plan_of()
    run_sweep(plan, tmp_path / "a", engine, keep_weights=False)
    assert sorted(path.name for path in (tmp_path / "a" / plan.runs[0].hash()).iterdir()) == [
        "records.jsonl",
        "run.json",
    ]
    run_sweep(plan, tmp_path / "b", engine)
    assert (tmp_path / "b" / plan.runs[0].hash() / "model.safetensors").exists()


def test_the_cost_is_measured_and_nothing_written(tmp_path, engine):
    plan = plan_of("erm", f"{BAD}:Raises", steps=50)
    cost = estimate_sweep(plan, plan.runs, engine, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert cost.seconds > 0
    assert list(cost.errors) == [f"{BAD}:Raises on {ROWS}"]
    run_sweep(plan_of("erm", steps=50), tmp_path, engine)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert 0.5 * size < cost.size < 2 * size


def test_processes_that_cannot_start_stop_the_sweep(tmp_path, monkeypatch):
    engine = LocalEngine(1, accelerator="cpu")
    monkeypatch.setattr("momentalign.sweep._local._serve", _not_to_be_pickled_away)
    try:
        with pytest.raises(OSError, match="before its first run"):
            run_sweep(plan_of(), tmp_path, engine)
    finally:
        engine.close()
    assert not list(tmp_path.glob("*/run.json"))


def _not_to_be_pickled_away(connection, threads, start_method):
    sys.exit(3)


def test_threads_are_divided():
    cores = len(os.sched_getaffinity(0))
    assert LocalEngine(accelerator="cpu").slots == cores
    assert LocalEngine(1, accelerator="cpu").threads == cores
    assert LocalEngine(4 * cores, accelerator="cpu").threads == 1
    with pytest.raises(ValueError, match="'jobs' should be at least 1"):
        LocalEngine(0)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_sweeps_go_on_and_leave_no_process(tmp_path, how):
    sign = tmp_path / "sign"
    command = [sys.executable, "-m", "momentalign", "sweep", ROWS]
    command += ["--algorithms", f"{BAD}:Slow", "--trials", "1", "--hparams", "1", "--steps", "2000", "--device", "cpu"]
    command += [
        "--no-baselines",
        "--test-domains=c",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "runs"),
        "--record-every",
        "1",
    ]
    environment = {**os.environ, "MOMENTALIGN_TEST_SIGN": str(sign)}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=listen,
    )
    deadline = time.monotonic() + 300
    runs = tmp_path / "runs"
    while not list(runs.glob("*/checkpoint.safetensors")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    for _ in range(5 if how == signal.SIGINT else 1):
        os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)
        time.sleep(0.05)
    output, _ = process.communicate(timeout=300)
    while _session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _session(process.pid) == []
    assert list(statuses(runs).values()) == ["running"]
    assert list((runs / ".plans").iterdir())
    assert "Traceback" not in output
    if how != signal.SIGKILL:
        assert process.returncode == 128 + how
        assert output.count("Run the same command again to resume.") == 1
    assert Claims(runs).acquire(next(runs.glob("*/run.json")).parent.name)


def _session(leader):
    """Processes of a session that have not ended, as the command lines that started them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append((folder / "cmdline").read_text())
    return found
