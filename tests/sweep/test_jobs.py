import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import momentalign.data._load as loading
import momentalign.encoders._build as building
from momentalign.runs import RunState, is_busy, record_failure
from momentalign.sweep import _jobs, estimate_sweep, make_plan
from momentalign.sweep._jobs import Job, Outcome, execute, measure_run, pack_folder, unpack_folder
from momentalign.training import make_config, run
from tests.encoders.models import save_model, write_images
from tests.sweep.engines import Here

pytestmark = pytest.mark.slow

TRAINING = """
import sys, time
from pathlib import Path
from momentalign.runs._locks import lock
lock(Path(sys.argv[1]))
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


def test_a_folder_travels_as_bytes(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "checkpoint").mkdir(parents=True)
    (source / "run.json").write_text("1")
    (source / "checkpoint" / "model").write_text("2")
    target.mkdir()
    (target / "old").touch()
    unpack_folder(pack_folder(source), target)
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*")) == [
        "checkpoint",
        "checkpoint/model",
        "run.json",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def brief_estimate(monkeypatch, tmp_path, seconds):
    """Of three algorithms on two data sets, whose runs take 1, 2, … seconds; and what was measured, in order."""
    measured = []

    def measure(job):
        assert job.measure
        assert job.brief
        assert torch.get_num_threads() == 1
        measured.append((Path(job.config.dataset).stem, job.config.algorithm))
        if job.config.algorithm == "erm" and "rows" in job.config.dataset:
            return Outcome(job, RunState.FAILED, "no reason")
        return Outcome(job, RunState.FINISHED, None, float(len(measured)), 100)

    monkeypatch.setattr("momentalign.sweep._estimate.execute", measure)
    monkeypatch.setattr("momentalign.sweep._estimate._BRIEF_SECONDS", seconds)
    rows = Path(__file__).with_name("rows.csv")
    other = shutil.copy(rows, tmp_path / "other.csv")
    options = {"trials": 1, "hparams": 1, "steps": 3, "test_domains": ["c"], "baselines": False}
    plan = make_plan([str(rows), str(other)], ["erm", "cma", "coral"], **options)
    return estimate_sweep(plan, plan.runs, Here(), tmp_path, brief=True), measured


def test_a_brief_estimate_measures_one_method_of_each_data_set_first(tmp_path, monkeypatch):
    cost, measured = brief_estimate(monkeypatch, tmp_path, 100)
    names = ["erm", "erm", "cma", "cma", "coral", "coral"]
    assert measured == list(zip(["rows", "other"] * 3, names, strict=True))
    assert (cost.seconds, cost.size, cost.measured) == (2 + 3 + 4 + 5 + 6, 500, (5, 6))
    assert list(cost.errors.values()) == ["no reason"]


def test_a_brief_estimate_stops_when_something_is_measured(tmp_path, monkeypatch):
    cost, measured = brief_estimate(monkeypatch, tmp_path, 0)
    assert measured == [("rows", "erm"), ("other", "erm")]  # the first failed
    assert (cost.seconds, cost.size) == (5 * 2, 500)
    assert str(cost) == (
        "about 10 s and 1 KiB of disk, within a factor of three or so, from short steps of 1 of 6 methods"
    )


def counted(monkeypatch, module, name):
    calls, real = [], getattr(module, name)

    def call(*arguments, **options):
        calls.append(arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, call)
    return calls


def test_nothing_is_loaded_to_be_counted(tmp_path, monkeypatch):
    save_model("resnet", tmp_path / "resnet")
    write_images(tmp_path / "images", per_class=5)
    words = {"test_domains": ["day"], "encoder": str(tmp_path / "resnet"), "hparams": {"batch_size": 4}, "steps": 3}
    config = make_config(str(tmp_path / "images"), "erm", **words)
    with monkeypatch.context() as patch:
        listed = counted(patch, loading, "read_image_folder")
        loaded = counted(patch, building, "_encoder_by_name")
        cost = measure_run(Job(config, tmp_path / "none", ()))
    assert len(listed) == 1
    assert len(loaded) <= 2  # a few steps, and more where they were quick
    run(config, tmp_path / "run", accelerator="cpu")
    kept = load_file(tmp_path / "run" / "model.safetensors")
    assert cost.weights == sum(tensor.nbytes for tensor in kept.values())


def test_weights_and_records_of_a_network_of_ours(tmp_path):
    config = make_config("colored-digits", "cma", test_domains=["-90%"], steps=3, average="none")
    cost = measure_run(Job(config, tmp_path / "none", ()))
    assert cost.weights > 10_000
    assert cost.records == 2 * (12 + 2 * 3 * 2) * 100
