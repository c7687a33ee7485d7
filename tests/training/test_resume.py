"""A run that was killed goes on as if nothing had happened."""

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import momentalign
import momentalign.training._steps as steps
from momentalign._model_file import CHECKPOINT, MODEL
from momentalign.runs import RunFolder, read_run, read_runs, run_state
from momentalign.training import find_position, run
from momentalign.training._options import CHECKPOINT_SECONDS, RunOptions
from tests.training.problems import assert_same_weights, cut_at, numbers, small_config, three_domains

pytestmark = pytest.mark.slow

KILLED = """
import os, signal, sys
import torch
import momentalign.training._steps as steps
from momentalign.runs import RunConfig
from momentalign.training import run
from tests.training.problems import small_config, three_domains

torch.set_num_threads(1)
real = steps.seed_step

def seed_step(trial, step, *rest):
    if step == 11:
        os.kill(os.getpid(), signal.SIGKILL)
    real(trial, step, *rest)

steps.seed_step = seed_step
data = three_domains()
config = small_config(data, "fishr", hparams={"dropout": 0.3, "anneal_steps": 6})
run(config, sys.argv[1], data=data, checkpoint_every=1)
"""


def test_killed_at_step_11_and_resumed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "killed")], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert read_run(tmp_path / "killed")["status"] == "running"
    assert find_position(tmp_path / "killed").step == 9
    data = three_domains()
    config = small_config(data, "fishr", hparams={"dropout": 0.3, "anneal_steps": 6})
    messages: list[str] = []
    run(config, tmp_path / "killed", data=data, log=messages.append)
    assert "Resuming at step 9 of 20." in messages
    run(config, tmp_path / "whole", data=data)
    assert_same_weights(tmp_path / "killed", tmp_path / "whole")
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")


@pytest.mark.parametrize(
    "name", ["erm", "irm", "cma-momentum", "groupdro", "fish", "andmask", "dann", "cdann", "selfreg", "hutchinson"]
)
def test_an_error_in_between_changes_nothing(name: str, tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, name, steps=8, record_every=3)
    run(config, tmp_path / "whole", data=data)
    with cut_at(5):
        run(config, tmp_path / "cut", data=data, checkpoint_every=1)
    assert read_run(tmp_path / "cut")["error"].startswith("RuntimeError: power cut (")
    run(config, tmp_path / "cut", data=data)
    assert_same_weights(tmp_path / "cut", tmp_path / "whole")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_rarer_checkpoints_go_back_further(tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data)
    run(config, tmp_path / "whole", data=data)
    with cut_at(15, KeyboardInterrupt()):
        run(config, tmp_path / "cut", data=data, checkpoint_every=2)
    assert find_position(tmp_path / "cut").step == 9  # records at 0, 4, 8, 12; checkpoints after 0 and 8
    assert read_run(tmp_path / "cut")["status"] == "running"
    run(config, tmp_path / "cut", data=data, checkpoint_every=2)
    assert_same_weights(tmp_path / "cut", tmp_path / "whole")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_a_run_that_goes_on_without_writing_weights_keeps_no_old_ones(tmp_path: Path) -> None:
    data = three_domains()
    with cut_at(11, KeyboardInterrupt()):
        run(small_config(data), tmp_path / "cut", data=data, checkpoint_every=1)
    run(small_config(data), tmp_path / "cut", data=data, save=False)
    assert read_run(tmp_path / "cut")["status"] == "finished"
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == ["records.jsonl", "run.json"]


def test_a_checkpoint_follows_when_the_last_is_old() -> None:
    config = small_config(three_domains())  # 20 steps, a record every 4
    options = RunOptions()
    assert not options.saves(config, 4, CHECKPOINT_SECONDS - 0.1)
    assert options.saves(config, 4, CHECKPOINT_SECONDS + 0.1)
    assert not options.saves(config, 19, CHECKPOINT_SECONDS + 0.1)  # the last step leaves the finished model
    assert RunOptions(save=False).saves(config, 4, CHECKPOINT_SECONDS + 0.1)
    assert [RunOptions(checkpoint_every=2).saves(config, step, 0.0) for step in (0, 4, 8)] == [True, False, True]


def test_a_kill_after_the_last_weights_only_finishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = three_domains()
    config = small_config(data)

    def killed(self: RunFolder, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "run", data=data, checkpoint_every=1)
    assert (tmp_path / "run" / CHECKPOINT).exists()
    before, written = numbers(tmp_path / "run"), (tmp_path / "run" / MODEL).stat()
    assert read_run(tmp_path / "run")["status"] == "running"

    monkeypatch.setattr(steps, "seed_step", None)  # a step would be an error
    last = run(config, tmp_path / "run", data=data)
    about = read_run(tmp_path / "run")
    assert (about["status"], about["error"]) == ("finished", None)
    assert about["weights"]["step"] == 19
    assert about["finished"] >= about["started"]
    assert {record["step"] for record in last} == {19}
    assert numbers(tmp_path / "run") == before
    assert (tmp_path / "run" / MODEL).stat().st_mtime_ns == written.st_mtime_ns
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [MODEL, "records.jsonl", "run.json"]


def test_weights_without_the_last_record_are_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = three_domains()
    config = small_config(data)
    run(config, tmp_path / "whole", data=data)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    about = read_run(tmp_path / "cut")
    (tmp_path / "cut" / "run.json").write_text(json.dumps(about | {"status": "running"}))
    lines = (tmp_path / "cut" / "records.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut" / "records.jsonl").write_text("".join(line for line in lines if '"step": 19' not in line))
    run(config, tmp_path / "cut", data=data)
    assert read_run(tmp_path / "cut")["status"] == "finished"
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_records_cut_short_start_the_run_again(tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, steps=12)
    run(config, tmp_path / "whole", data=data)
    with cut_at(9, KeyboardInterrupt()):
        run(config, tmp_path / "cut", data=data, checkpoint_every=1)
    records = tmp_path / "cut" / "records.jsonl"
    records.write_bytes(records.read_bytes()[:-40])
    with pytest.warns(UserWarning, match=r"records.jsonl lacks records .*The run starts again"):
        run(config, tmp_path / "cut", data=data)
    assert_same_weights(tmp_path / "cut", tmp_path / "whole")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_a_run_of_an_older_version_is_not_resumed_and_its_records_stay(tmp_path: Path) -> None:
    data, folder = three_domains(), tmp_path / "run"
    config = small_config(data, steps=6)
    with cut_at(5, KeyboardInterrupt()):
        run(config, folder, data=data, checkpoint_every=1)
    about = read_run(folder) | {"format": 1, "momentalign": "0.1.0", "sha256": "0"}
    (folder / CHECKPOINT).unlink()
    before = numbers(folder)
    for status in ("running", "finished"):
        (folder / "run.json").write_text(json.dumps(about | {"status": status}))
        for call in (partial(run, config, data=data), momentalign.load) if status == "running" else (momentalign.load,):
            with pytest.raises(ValueError, match=r"was written by momentalign 0\.1\.0"):
                call(folder)  # type: ignore[operator]
        assert run_state(folder, config)[0] == ("foreign" if status == "running" else "finished")
        assert numbers(folder) == before
        assert read_runs(folder).runs["status"].tolist() == [status]


def test_another_number_of_threads_is_recorded_and_said(tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, steps=6)
    with cut_at(5, KeyboardInterrupt()):
        run(config, tmp_path / "cut", data=data, checkpoint_every=1)
    before = torch.get_num_threads()
    assert read_run(tmp_path / "cut")["threads"] == before
    torch.set_num_threads(before + 1)
    try:
        with pytest.warns(UserWarning, match=rf"was begun with {before} threads? and resumes with {before + 1}, so"):
            run(config, tmp_path / "cut", data=data)
    finally:
        torch.set_num_threads(before)
    assert read_run(tmp_path / "cut")["threads"] == before + 1
