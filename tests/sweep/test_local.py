"""What only local processes do."""

import multiprocessing
import os
import subprocess
import sys
import threading
from contextlib import closing, contextmanager

import pytest

from momentalign._machine import available_cores
from momentalign.runs import is_busy, record_failure, run_state
from momentalign.selection import read_runs
from momentalign.sweep import LocalEngine, _jobs, _local, run_sweep
from momentalign.sweep._jobs import Job, execute
from momentalign.training import make_config
from tests.sweep.engines import BAD, plan_of

pytestmark = pytest.mark.slow

TRAINING = """
import sys, time
from pathlib import Path
from momentalign.runs._locks import lock
lock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def processes():
    return {child.pid for child in multiprocessing.active_children()}


def test_processes_are_used_again_and_replaced_when_they_die_idle(tmp_path, engine):
    run_sweep(plan_of(trials=2), tmp_path / "a", engine)
    first = processes()
    run_sweep(plan_of(trials=3, steps=2), tmp_path / "b", engine)
    assert processes() == first
    for child in multiprocessing.active_children():
        child.kill()
        child.join()
    tally = run_sweep(plan_of("coral"), tmp_path / "c", engine)
    assert (tally.finished, tally.failed) == (1, {})
    assert not processes() & first


def test_processes_start_those_that_read_images_as_any_other_would(tmp_path, engine):
    (error,) = run_sweep(plan_of(f"{BAD}:Tells"), tmp_path, engine).failed.values()
    assert error.partition(" ")[0] == multiprocessing.get_start_method()


def test_processes_are_divided_among_gpus_and_cores(monkeypatch):
    cores = available_cores()
    assert LocalEngine(accelerator="cpu").slots == cores
    assert LocalEngine(1, accelerator="cpu").threads == cores
    assert LocalEngine(4 * cores, accelerator="cpu").threads == 1
    monkeypatch.setattr(_local, "visible_gpus", lambda: ["0", "1"])
    engine = LocalEngine(per_gpu=2)
    assert (engine.slots, engine.accelerator) == (4, "cuda")
    assert [worker._about[0] for worker in engine._workers] == ["0", "1", "0", "1"]


def test_two_sweeps_share_a_folder(tmp_path, engine):
    plan = plan_of(f"{BAD}:Slow", trials=3, steps=6)
    tallies = []
    with closing(LocalEngine(1, accelerator="cpu")) as other:
        thread = threading.Thread(target=lambda: tallies.append(run_sweep(plan, tmp_path, other)))
        thread.start()
        tallies.append(run_sweep(plan, tmp_path, engine))
        thread.join()
    assert sum(tally.finished for tally in tallies) == 3
    assert all(tally.finished + tally.before == 3 for tally in tallies)
    assert list(read_runs(tmp_path).runs["status"]) == ["finished"] * 3


def test_folders_of_other_runs_are_not_touched(tmp_path, engine):
    plan = plan_of("erm", "coral")
    folder = tmp_path / plan.runs[0].hash()
    folder.mkdir()
    (folder / "run.json").write_text('{"format": 1, "status": "finished", "config": {}}')
    tally = run_sweep(plan, tmp_path, engine)
    assert tally.finished == 1
    assert tally.failed == {folder.name: run_state(folder, plan.runs[0])[1]}
    assert (folder / "run.json").read_text() == '{"format": 1, "status": "finished", "config": {}}'


def test_processes_that_cannot_start_stop_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(_local, "_begin", _exit)
    with closing(LocalEngine(1, accelerator="cpu")) as engine, pytest.raises(OSError, match="before its first run"):
        run_sweep(plan_of(), tmp_path, engine)
    assert not list(tmp_path.glob("*/run.json"))


def _exit(*_):
    os._exit(3)


@contextmanager
def training_in(folder):
    """Another process that has the folder's lock."""
    command = [sys.executable, "-c", TRAINING, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield
        process.stdin.close()


def test_a_folder_that_is_trained_in_is_busy_and_left_alone(tmp_path, monkeypatch):
    config = make_config("colored-digits", "erm", test_domains=["-90%"], steps=5)
    job = Job(config, tmp_path / config.hash(), ("+90%", "+80%", "-90%"))
    assert not is_busy(job.folder)
    record_failure(job.folder, config, job.domains, "no")
    before = (job.folder / "run.json").read_text()
    with training_in(job.folder):
        assert is_busy(job.folder)
        assert execute(job).status == "busy"
        # It may also begin a moment after it was looked at.
        monkeypatch.setattr(_jobs, "is_busy", lambda folder: False)
        assert execute(job).status == "busy"
        assert (job.folder / "run.json").read_text() == before
    assert not is_busy(job.folder)
