"""A disk that is full, or a quota that is used up, stops a sweep and loses nothing."""

import errno
import json
import pickle
import stat
from pathlib import Path

import pytest

import momentalign.probing._run as probe_run
import momentalign.tables._model as probe_model
import momentalign.training._loop as loop
from momentalign._files import DiskFullError, is_disk_full
from momentalign.probing import run_probe
from momentalign.runs import read_run, record_failure, run_state
from momentalign.sweep import make_plan, make_probe_plan, remaining, run_sweep
from tests.sweep.engines import Here

pytestmark = pytest.mark.slow


def no_room(number):
    def write(*_, **__):
        raise OSError(number, "no room")

    return write


def plan_of(**options):
    rows = str(Path(__file__).with_name("rows.csv"))
    return make_plan([rows], ["erm"], trials=1, hparams=1, steps=3, test_domains=["c"], baselines=False, **options)


def is_full_device(path):
    """Whether a path is the device that is always full, which tests only write to, never rename onto."""
    return path.exists() and stat.S_ISCHR(path.stat().st_mode)


def test_what_says_that_there_is_no_room():
    for number in (errno.ENOSPC, errno.EDQUOT):
        assert is_disk_full(OSError(number, "no room"))
        # Of safetensors, which writes weights.
        assert is_disk_full(OSError(f"x could not be written: Error: I/O error: no room (os error {number})"))
    assert is_disk_full(DiskFullError("Anything."))
    assert not is_disk_full(OSError(errno.EACCES, "The disk is full"))
    assert not is_disk_full(OSError("x could not be written: no access (os error 2)"))
    assert not is_disk_full(ValueError("The disk is full (os error 28)"))


def test_the_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(DiskFullError("The disk is full.")))
    assert isinstance(error, DiskFullError)
    assert str(error) == "The disk is full."


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_run_goes_on_when_there_is_room(tmp_path, monkeypatch, number):
    plan = plan_of()
    folder = tmp_path / plan.runs[0].hash()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_checkpoint", no_room(number))
        with pytest.raises(DiskFullError, match=r"No space left for .*run the same command again") as error:
            run_sweep(plan, tmp_path, Here())
    assert "\n" not in str(error.value)
    assert "is full. Free some space and run the same command again: it resumes at step" in read_run(folder)["error"]
    assert remaining(plan, tmp_path).runs == plan.runs
    assert run_sweep(plan, tmp_path, Here()).finished == 1
    assert not read_run(folder)["disk_full"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_probe_goes_on_when_there_is_room(tmp_path, grouped, monkeypatch, number):
    plan = make_probe_plan([grouped], ["erm"], trials=1)
    folder = tmp_path / "runs" / plan.runs[0].hash()
    with monkeypatch.context() as patch:
        patch.setattr(probe_model, "atomic_write", no_room(number))
        with pytest.raises(
            DiskFullError, match=f"The disk of {folder} is full. Free some space and run the same command"
        ):
            run_probe(plan.runs[0], folder)
        with pytest.raises(DiskFullError, match="No space left"):
            run_sweep(plan, tmp_path / "runs", Here())
    assert run_state(folder, plan.runs[0])[0] == "disk-full"
    assert remaining(plan, tmp_path / "runs").runs == plan.runs
    tally = run_sweep(plan, tmp_path / "runs", Here())
    assert (tally.finished, tally.failed) == (1, {})


@pytest.mark.skipif(not is_full_device(Path("/dev/full")), reason="needs a device that is always full")
def test_a_device_that_is_really_full(tmp_path, engine):
    plan = plan_of()
    folder = tmp_path / plan.runs[0].hash()
    folder.mkdir()
    about = {"format": 1, "hash": folder.name, "config": plan.runs[0].to_dict(), "status": "running"}
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "records.jsonl").symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match="No space left"):
        run_sweep(plan, tmp_path, engine)
    assert run_state(folder, plan.runs[0])[0] == "disk-full"
    (folder / "records.jsonl").unlink()
    assert run_sweep(plan, tmp_path, engine).finished == 1


def test_words_alone_are_no_full_disk(tmp_path):
    """A failure that only speaks of a full disk waits for --retry-failed as any other does."""
    plan = plan_of()
    (config,) = plan.runs
    record_failure(tmp_path / config.hash(), config, (), "The queue is full.")
    assert remaining(plan, tmp_path).runs == ()
    assert run_sweep(plan, tmp_path, Here()).failed == {config.hash(): "The queue is full."}


def test_another_failure_after_a_full_disk_is_one(tmp_path):
    (config,) = plan_of().runs
    folder = tmp_path / config.hash()
    record_failure(folder, config, (), "no")
    (folder / "run.json").write_text(json.dumps({**read_run(folder), "disk_full": True}))
    assert run_state(folder, config) == ("disk-full", "no")
    record_failure(folder, config, (), "worse")
    assert run_state(folder, config) == ("failed", "worse")


def test_a_probe_that_fails_at_its_beginning_lets_go_of_its_folder(tmp_path, grouped, monkeypatch):
    (config,) = make_probe_plan([grouped], ["erm"], trials=1).runs

    def fail(*_):
        raise ValueError("The file is torn.")

    monkeypatch.setattr(probe_run._Probe, "run", fail)
    opened = []
    real = probe_run.RunFolder

    def remember(*arguments):
        opened.append(real(*arguments))
        return opened[-1]

    monkeypatch.setattr(probe_run, "RunFolder", remember)
    with pytest.raises(ValueError, match="torn"):
        run_probe(config, tmp_path / "run")
    assert opened[0]._records is None  # closed, and with it the lock
    about = read_run(tmp_path / "run")
    assert about["status"] == "failed"
    assert about["error"].startswith("The file is torn.")


def test_a_probe_whose_first_file_cannot_be_written_lets_go_of_its_folder(tmp_path, grouped, monkeypatch):
    import momentalign.runs._folder as folder

    (config,) = make_probe_plan([grouped], ["erm"], trials=1).runs
    closed = []
    real = folder.RunFolder.close
    monkeypatch.setattr(folder.RunFolder, "close", lambda self: (closed.append(self._records), real(self)))
    monkeypatch.setattr("momentalign.runs._run_json.atomic_write", no_room(errno.EDQUOT))
    with pytest.raises(DiskFullError):
        run_probe(config, tmp_path / "run")
    assert closed[0].closed
