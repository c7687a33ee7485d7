"""A disk that is full, or a quota that is used up, stops a sweep and loses nothing."""

import errno
import json
import stat
from pathlib import Path

import pytest

import momentalign.tables._model as probe_model
import momentalign.training._loop as loop
from momentalign._files import DiskFullError, is_disk_full
from momentalign.probing import run_probe
from momentalign.runs import is_busy, read_run, record_failure, run_state
from momentalign.runs._run_json import RUN_FORMATS
from momentalign.sweep import make_probe_plan, remaining, run_sweep
from tests.sweep.engines import Here, plan_of

pytestmark = pytest.mark.slow


def no_room(number):
    def write(*_, **__):
        raise OSError(number, "no room")

    return write


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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("kind", "module", "writer"), [("run", loop, "write_model"), ("probe", probe_model, "write_model")]
)
def test_a_sweep_goes_on_when_there_is_room(tmp_path, grouped, monkeypatch, kind, module, writer, number):
    plan = plan_of() if kind == "run" else make_probe_plan([grouped], ["erm"], trials=1)
    out = tmp_path / "runs"
    with monkeypatch.context() as patch:
        patch.setattr(module, writer, no_room(number))
        with pytest.raises(DiskFullError, match=r"No space left for .*run the same command again") as error:
            run_sweep(plan, out, Here())
    assert "\n" not in str(error.value)
    assert run_state(out / plan.runs[0].hash(), plan.runs[0])[0] == "disk-full"
    assert remaining(plan, out).runs == plan.runs
    tally = run_sweep(plan, out, Here())
    assert (tally.finished, tally.failed) == (1, {})


@pytest.mark.skipif(not is_full_device(Path("/dev/full")), reason="needs a device that is always full")
def test_a_device_that_is_really_full(tmp_path, engine):
    plan = plan_of()
    folder = tmp_path / plan.runs[0].hash()
    folder.mkdir()
    about = {"format": RUN_FORMATS[-1], "hash": folder.name, "config": plan.runs[0].to_dict(), "status": "running"}
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "records.jsonl").symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match="No space left"):
        run_sweep(plan, tmp_path, engine)
    assert run_state(folder, plan.runs[0])[0] == "disk-full"
    (folder / "records.jsonl").unlink()
    assert run_sweep(plan, tmp_path, engine).finished == 1


def test_another_failure_after_a_full_disk_is_one(tmp_path):
    (config,) = plan_of().runs
    folder = tmp_path / config.hash()
    record_failure(folder, config, (), "no")
    (folder / "run.json").write_text(json.dumps({**read_run(folder), "disk_full": True}))
    assert run_state(folder, config) == ("disk-full", "no")
    record_failure(folder, config, (), "worse")
    assert run_state(folder, config) == ("failed", "worse")


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("momentalign.probing._run._Probe.run", ValueError("The file is torn.")),
        ("momentalign.runs._run_json.atomic_write", OSError(errno.EDQUOT, "no room")),
    ],
)
def test_a_probe_that_fails_lets_go_of_its_folder(tmp_path, grouped, monkeypatch, target, error):
    def fail(*_, **__):
        raise error

    (config,) = make_probe_plan([grouped], ["erm"], trials=1).runs
    monkeypatch.setattr(target, fail)
    with pytest.raises((ValueError, DiskFullError)):
        run_probe(config, tmp_path / "run")
    assert not is_busy(tmp_path / "run")
