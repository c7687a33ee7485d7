"""The contract of the engines: the same tests with local processes and on a Ray cluster."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from momentalign._files import DiskFullError
from momentalign.cli._sweep_output import make_engine
from momentalign.runs import Claims, RunState, read_records, run_state
from momentalign.selection import read_runs
from momentalign.sweep import Advance, LocalEngine, Outcome, RayEngine, make_plan, run_sweep
from momentalign.training import run
from tests.encoders.models import save_model, write_images
from tests.processes import listen
from tests.sweep.engines import BAD, ROWS, plan_of

# Ray's own: files and sockets that it leaves to the garbage collector, and what it will do some day.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.slow,
]
KINDS = pytest.mark.parametrize("kind", ["local", "ray"])


def start(kind, request, out):
    """A new engine with one slot."""
    if kind == "local":
        return LocalEngine(1, accelerator="cpu")
    return RayEngine(out, request.getfixturevalue("cluster").address, jobs=1)


@pytest.fixture(params=["local", "ray"])
def sweep(request, tmp_path):
    """Executes plans in `tmp_path / "runs"`; its `events` are those of the last one."""
    kind, out = request.param, tmp_path / "runs"
    engine = request.getfixturevalue("engine")
    if kind == "ray":
        engine = RayEngine(out, request.getfixturevalue("cluster").address)

    def execute(plan, **options):
        execute.events = []
        return run_sweep(plan, out, engine, progress=lambda _, event: execute.events.append(event), **options)

    execute.out, execute.kind = out, kind
    yield execute
    if kind == "ray":
        engine.close()


def outcomes(sweep):
    return [event.status for event in sweep.events if isinstance(event, Outcome)]


def folders(sweep):
    return sorted(path.name for path in sweep.out.iterdir() if not path.name.startswith(".sweep-"))


def about(sweep, run):
    return json.loads((sweep.out / run.hash() / "run.json").read_text())


def test_all_runs_are_done_once(sweep):
    plan = plan_of("erm", "cma", trials=2, steps=50)
    tally = sweep(plan)
    assert (tally.finished, tally.before, tally.failed) == (4, 0, {})
    assert outcomes(sweep) == ["finished"] * 4
    results = read_runs(sweep.out)
    assert results.problems == []
    assert list(results.runs["status"]) == ["finished"] * 4
    assert set(results.runs["algorithm"]) == {"erm", "cma"}
    assert folders(sweep) == sorted(run.hash() for run in plan.runs)
    shares = [event.share for event in sweep.events if isinstance(event, Advance)]
    assert bool(shares) == (sweep.kind == "local")
    assert all(0 <= share <= 1 for share in shares)
    before = {path: path.stat().st_mtime_ns for run in plan.runs for path in (sweep.out / run.hash()).rglob("*")}
    tally = sweep(plan)
    assert (tally.finished, tally.before) == (0, 4)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_failing_run_is_recorded_and_stops_nothing(sweep):
    plan = plan_of(f"{BAD}:Raises", f"{BAD}:Exits", "erm")
    tally = sweep(plan)
    raises, exits = (run.hash() for run in plan.runs[:2])
    assert tally.finished == 1
    assert set(tally.failed) == {raises, exits}
    assert "no such luck" in tally.failed[raises]
    assert "enough" in tally.failed[exits]
    assert "\n" not in tally.failed[raises]
    assert about(sweep, plan.runs[0])["config"] == plan.runs[0].to_dict()
    assert any("no such luck" in problem for problem in read_runs(sweep.out).problems)
    # Left alone the next time, and tried again when told to.
    assert set(sweep(plan).failed) == {raises, exits}
    assert outcomes(sweep) == []
    sweep(plan, retry_failed=True)
    assert outcomes(sweep) == ["failed"] * 2


@KINDS
def test_a_run_that_loses_its_process_is_resumed_a_few_times(tmp_path, sign, kind, request, monkeypatch):
    monkeypatch.setattr("momentalign.sweep._local.RETRIES", 1)
    monkeypatch.setattr("momentalign.sweep._ray.RETRIES", 1)
    sign.unlink(missing_ok=True)
    plan = plan_of(f"{BAD}:DiesOnce", f"{BAD}:Dies", "erm")
    with closing(start(kind, request, tmp_path)) as engine:
        tally = run_sweep(plan, tmp_path, engine)
    assert sign.exists()
    assert tally.finished == 2
    (error,) = tally.failed.values()
    assert error.startswith("Lost 2 times: ")
    assert run_state(tmp_path / plan.runs[1].hash(), plan.runs[1]) == (RunState.FAILED, error)


def test_unfinished_runs_are_resumed(sweep, tmp_path):
    plan = plan_of(steps=4, record_every=1)
    config = plan.runs[0]
    run(config, tmp_path / "whole", accelerator="cpu")

    class Stop(BaseException):
        pass

    def stop(at):
        if at.done == 3:
            raise Stop

    with pytest.raises(Stop):
        run(config, sweep.out / config.hash(), accelerator="cpu", progress=stop)
    assert about(sweep, config)["status"] == "running"
    assert sweep(plan).finished == 1
    whole, resumed = (
        [{**record, "value": None if record["metric"] == "step_seconds" else record["value"]} for record in records]
        for records in (read_records(tmp_path / "whole"), read_records(sweep.out / config.hash()))
    )
    assert [r for r in whole if r["metric"] == "accuracy"] == [r for r in resumed if r["metric"] == "accuracy"]


def test_a_full_disk_stops_the_sweep_and_fails_no_run(sweep):
    plan = plan_of(f"{BAD}:Full")
    for _ in range(2):
        with pytest.raises(DiskFullError, match="No space left for"):
            sweep(plan)
    assert run_state(sweep.out / plan.runs[0].hash(), plan.runs[0])[0] is RunState.DISK_FULL


def test_weights_need_not_stay(sweep):
    plan = plan_of()
    sweep(plan, keep_weights=False)
    assert {path.name for path in (sweep.out / plan.runs[0].hash()).iterdir()} == {"records.jsonl", "run.json"}


def test_a_broken_image_fails_its_run_or_is_left_out(sweep, tmp_path):
    save_model("resnet", tmp_path / "resnet")
    write_images(tmp_path / "images", per_class=5)
    (tmp_path / "images" / "night" / "dog" / "3.png").write_bytes(b"no image")
    options = {"trials": 1, "hparams": 1, "steps": 2, "test_domains": ["day"], "encoder": str(tmp_path / "resnet")}
    plan = make_plan([str(tmp_path / "images")], ["erm"], overrides={"batch_size": 4}, **options)
    assert "3.png should be an image" in sweep(plan).failed[plan.runs[0].hash()]
    tally = sweep(plan, retry_failed=True, skip_bad_files=True)
    assert (tally.finished, tally.failed) == (1, {})
    assert "images: 1 unreadable file skipped: night/dog/3.png." in tally.notes


@KINDS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_gpu": 0}, "'per_gpu' should be at least 1, but is 0."),
        ({"device": "cuda", "per_gpu": -1}, "'per_gpu' should be at least 1, but is -1."),
        ({"cpus": 0}, "'cpus' should be at least 1, but is 0."),
        ({"jobs": 0}, "'jobs' should be at least 1, but is 0."),
        ({"device": "gpu"}, "'device' should be one of 'auto', 'cpu', 'cuda', but is 'gpu'."),
    ],
)
def test_bad_numbers_are_refused_before_anything_starts(tmp_path, kind, options, message):
    if kind == "ray":
        pytest.importorskip("ray", reason="Ray is an extra")
    elif "cpus" in options:
        return
    with pytest.raises(ValueError, match=message):
        make_engine(kind, tmp_path, **{"jobs": None, "device": "auto", "per_gpu": 1, **options})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *(("local", how) for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)),
        *(("ray", how) for how in (signal.SIGINT, signal.SIGKILL)),
    ],
)
def test_an_interrupted_sweep_is_one_line_and_leaves_no_process(tmp_path, kind, how):
    if kind == "ray":
        pytest.importorskip("ray", reason="Ray is an extra")
    runs = tmp_path / "runs"
    words = f"sweep {ROWS} --algorithms {BAD}:Slow --trials 1 --hparams 1 --steps 2000 --record-every 1 --device cpu"
    words += f" --no-baselines --test-domains=c --jobs 1 --engine {kind} --out {runs}"
    process = subprocess.Popen(
        [sys.executable, "-m", "momentalign", *words.split()],
        env={**os.environ, "MOMENTALIGN_TEST_SWEEP": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=listen,
    )
    deadline = time.monotonic() + 300
    while not list(runs.glob("*/checkpoint*")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    for _ in range(5 if how == signal.SIGINT else 1):
        os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)
        time.sleep(0.05)
    output, _ = process.communicate(timeout=300)
    while _started_by(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _started_by(tmp_path) == []
    (folder,) = (path.parent for path in runs.glob("*/run.json"))
    assert json.loads((folder / "run.json").read_text())["status"] == "running"
    assert list((runs / ".plans").iterdir())
    assert "Traceback" not in output
    if how != signal.SIGKILL:
        assert process.returncode == 128 + how
        assert output.count("Run the same command again to resume.") == 1
    assert Claims(runs).acquire(folder.name)


def _started_by(test):
    """Command lines of the processes that a test started, and they in turn, and that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"MOMENTALIGN_TEST_SWEEP={test}\0".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
    return found
