import json
import multiprocessing
import subprocess
import sys
from contextlib import contextmanager

from momentalign.sweep import _claims, _jobs
from momentalign.sweep._archive import pack, unpack
from momentalign.sweep._claims import Claims, state_of
from momentalign.sweep._jobs import Job, execute, record_failure
from momentalign.training import make_config
from momentalign.training._busy import is_busy
from momentalign.training._run_json import FORMAT


def config_of(**options):
    return make_config("colored-digits", "erm", test_domains=["-90%"], steps=5, **options)


def test_a_claim_excludes_others_and_ends_with_its_holder(tmp_path):
    mine, theirs = Claims(tmp_path), Claims(tmp_path)
    assert mine.take("a")
    assert not theirs.take("a")
    assert theirs.take("b")
    mine.give("a", finished=False)
    assert theirs.take("a")
    theirs.give_all()
    assert mine.take("b")
    mine.give("b", finished=True)
    assert not (tmp_path / ".locks" / "b").exists()


def test_a_folder_of_locks_that_another_sweep_removed_is_made_again(tmp_path):
    mine, theirs = Claims(tmp_path), Claims(tmp_path)
    theirs.give_all()
    assert not (tmp_path / ".locks").exists()
    assert mine.take("a")
    assert not theirs.take("a")


def _hold(folder, ready, go):
    claims = Claims(folder)
    claims.take("a")
    ready.set()
    go.wait()
    claims.give_all()


def test_a_killed_process_holds_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, go = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, go))
    holder.start()
    assert ready.wait(20)
    claims = Claims(tmp_path)
    assert not claims.take("a")
    holder.kill()
    holder.join()
    assert claims.take("a")


def test_what_a_folder_says(tmp_path):
    config = config_of()
    folder = tmp_path / config.hash()
    assert state_of(folder, config) == ("new", None)
    job = Job(config, folder, ("+90%", "+80%", "-90%"))
    record_failure(job, "no")
    assert state_of(folder, config) == ("failed", "no")
    assert state_of(folder, config_of(trial=1))[0] == "foreign"
    about = json.loads((folder / "run.json").read_text())
    for status in ("running", "finished"):
        (folder / "run.json").write_text(json.dumps({**about, "status": status}))
        assert state_of(folder, config)[0] == status
    (folder / "run.json").write_text(json.dumps({**about, "format": 2}))
    assert state_of(folder, config)[0] == "foreign"
    for damaged in ("{", "[]", "{}"):
        (folder / "run.json").write_text(damaged)
        assert state_of(folder, config)[0] == "broken"
    (folder / "run.json").unlink()
    (folder / "run.json").mkdir()
    assert state_of(folder, config) == (
        "foreign",
        f"{folder}/run.json cannot be read (Is a directory). Use another --out.",
    )


def test_the_format_of_runs_is_that_of_their_writer(tmp_path, monkeypatch):
    config = config_of()
    record_failure(Job(config, tmp_path / "x", ()), "no")
    assert _claims.FORMAT is FORMAT
    monkeypatch.setattr(_claims, "FORMAT", FORMAT + 1)
    assert state_of(tmp_path / "x", config)[0] == "foreign"


def test_a_failure_keeps_what_the_folder_knows(tmp_path):
    config = config_of()
    job = Job(config, tmp_path / "x", ())
    job.folder.mkdir()
    about = {"format": 1, "config": config.to_dict(), "status": "running", "device": "cpu"}
    (job.folder / "run.json").write_text(json.dumps(about))
    record_failure(job, "no")
    assert json.loads((job.folder / "run.json").read_text()) == {**about, "status": "failed", "error": "no"}
    assert [path.name for path in job.folder.iterdir()] == ["run.json"]


TRAINING = """
import sys, time
from pathlib import Path
from momentalign.training._busy import lock
file = (Path(sys.argv[1]) / "records.jsonl").open("a+b")
lock(file, Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def training_in(folder):
    """Another process that has the folder's lock."""
    command = [sys.executable, "-c", TRAINING, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield
        process.stdin.close()


def test_a_folder_that_is_trained_in_is_busy_and_left_alone(tmp_path, monkeypatch):
    config = config_of()
    job = Job(config, tmp_path / config.hash(), ("+90%", "+80%", "-90%"))
    assert not is_busy(job.folder)
    record_failure(job, "no")
    before = (job.folder / "run.json").read_text()
    with training_in(job.folder):
        assert is_busy(job.folder)
        assert execute(job).status == "busy"
        # It may also begin a moment after it was looked at.
        monkeypatch.setattr(_jobs, "is_busy", lambda folder: False)
        assert execute(job).status == "busy"
        assert (job.folder / "run.json").read_text() == before
    assert not is_busy(job.folder)


def test_a_folder_travels_as_bytes(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "checkpoint").mkdir(parents=True)
    (source / "run.json").write_text("1")
    (source / "checkpoint" / "model").write_text("2")
    target.mkdir()
    (target / "old").touch()
    unpack(pack(source), target)
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*")) == [
        "checkpoint",
        "checkpoint/model",
        "run.json",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]
