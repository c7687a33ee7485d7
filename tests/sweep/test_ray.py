"""Sweeps on a real Ray cluster of two nodes."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="Ray is an extra")
from ray.cluster_utils import Cluster  # noqa: E402

from momentalign._files import DiskFullError  # noqa: E402
from momentalign.cli._sweep_output import make_engine  # noqa: E402
from momentalign.selection import read_runs  # noqa: E402
from momentalign.sweep import RayEngine, estimate_sweep, make_plan, run_sweep  # noqa: E402
from momentalign.sweep._jobs import Outcome  # noqa: E402
from momentalign.sweep._ray import _describe_loss  # noqa: E402
from tests.encoders.models import save_model, write_images  # noqa: E402

# Ray's own: files and sockets that it leaves to the garbage collector, and what it will do some day.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.slow,
]

BAD = "tests.sweep.algorithms"
ROWS = str(Path(__file__).with_name("rows.csv"))


def plan_of(*algorithms, **options):
    chosen = {"trials": 1, "hparams": 1, "steps": 3, "test_domains": ["c"], "baselines": False, **options}
    return make_plan([ROWS], algorithms or ["erm"], **chosen)


@pytest.fixture(scope="module")
def cluster():
    # Ray gives its workers the lowest priority: beside other tests they would wait for minutes.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (Ray reads it so)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    del os.environ["RAY_worker_niceness"]  # noqa: SIM112


def test_a_node_that_dies_loses_no_run(tmp_path, cluster, monkeypatch):
    sign = tmp_path / "sign"
    monkeypatch.setenv("MOMENTALIGN_TEST_SIGN", str(sign))
    node = cluster.add_node(num_cpus=1, env_vars={"MOMENTALIGN_TEST_SIGN": str(sign)})
    cluster.wait_for_nodes()
    plan = plan_of(f"{BAD}:Slow", trials=4, steps=40, record_every=10)
    engine = RayEngine(tmp_path / "runs", cluster.address)
    try:
        assert engine.slots == 2
        assert "2 nodes" in engine.description
        killed = False

        def kill_in_the_middle(tally, event):
            nonlocal killed
            begun = [path for path in (tmp_path / "runs").glob("*/records.jsonl") if path.stat().st_size]
            if not killed and len(begun) == 2:
                killed = True
                cluster.remove_node(node, allow_graceful=False)

        tally = run_sweep(plan, tmp_path / "runs", engine, progress=kill_in_the_middle)
    finally:
        engine.close()
    assert killed
    assert (tally.finished, tally.failed) == (4, {})
    sweep = read_runs(tmp_path / "runs")
    assert list(sweep.runs["status"]) == ["finished"] * 4
    assert sweep.problems == []
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(run.hash() for run in plan.runs)


def test_machines_without_the_folder_send_their_runs(tmp_path, cluster):
    plan = plan_of("erm", f"{BAD}:Raises")
    engine = RayEngine(tmp_path / "runs", cluster.address, jobs=1)
    try:
        engine._marker.unlink()  # as seen from a machine that shares no disk
        tally = run_sweep(plan, tmp_path / "runs", engine)
    finally:
        engine.close()
    assert tally.finished == 1
    assert "no such luck" in next(iter(tally.failed.values()))
    done, failed = (tmp_path / "runs" / run.hash() for run in plan.runs)
    assert (done / "model.safetensors").exists()
    assert json.loads((failed / "run.json").read_text())["status"] == "failed"
    assert set(read_runs(tmp_path / "runs").runs["status"]) == {"finished", "failed"}


def test_the_cost_is_measured_there(tmp_path, cluster):
    engine = RayEngine(tmp_path, cluster.address)
    try:
        plan = plan_of(steps=50)
        assert estimate_sweep(plan, plan.runs, engine, tmp_path).seconds > 0
    finally:
        engine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_process_always_dies_fails(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr("momentalign.sweep._ray._RETRIES", 1)
    plan = plan_of(f"{BAD}:Dies")
    engine = RayEngine(tmp_path, cluster.address)
    events = []
    try:
        tally = run_sweep(plan, tmp_path, engine, progress=lambda tally, event: events.append(event))
    finally:
        engine.close()
    error = tally.failed[plan.runs[0].hash()]
    assert error.startswith("Lost 2 times: ")
    assert [event.status for event in events if isinstance(event, Outcome)] == ["failed"]
    assert json.loads((tmp_path / plan.runs[0].hash() / "run.json").read_text())["error"] == error


def test_what_the_cluster_lacks_is_said_before_the_start(tmp_path, cluster):
    with pytest.raises(
        ValueError, match=r"needs 64 cores on one machine of the Ray cluster, which has \d+ cores and 0 G"
    ):
        RayEngine(tmp_path, cluster.address, cpus=64)
    with pytest.raises(ValueError, match=r"needs 1 cores and 0\.5 GPUs .* Use --device cpu to run without GPUs\."):
        RayEngine(tmp_path, cluster.address, accelerator="cuda", per_gpu=2)
    assert list(tmp_path.iterdir()) == []


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
def test_bad_numbers_are_refused_before_a_cluster_is_made(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        make_engine("ray", tmp_path, **{"jobs": None, "device": "auto", "per_gpu": 1, **options})
    assert list(tmp_path.iterdir()) == []


def test_auto_takes_the_gpus_that_a_cluster_has(tmp_path, cluster):
    def engine(device):
        return make_engine("ray", tmp_path, jobs=None, device=device, per_gpu=3, address=cluster.address)

    none = engine("auto")
    try:
        assert none.accelerator == "cpu"
        assert none.description.endswith("at once")
    finally:
        none.close()
    node = cluster.add_node(num_cpus=4, num_gpus=1)
    cluster.wait_for_nodes()
    try:
        found = engine("auto")
        try:
            assert (found.accelerator, found.slots) == ("cuda", 3)
            assert found.description.endswith("3 at once on GPUs")
        finally:
            found.close()
        without = engine("cpu")
        try:
            assert (without.accelerator, without.slots) == ("cpu", 5)
        finally:
            without.close()
    finally:
        cluster.remove_node(node)


def _raises(error):
    def task(job, mark, cpus):
        raise error

    return task


def test_an_error_on_the_cluster_is_not_called_a_loss(tmp_path, cluster):
    plan = plan_of()
    engine = RayEngine(tmp_path, cluster.address)
    try:
        engine._execute = ray.remote(_raises(KeyError("no such key")))
        (error,) = run_sweep(plan, tmp_path, engine).failed.values()
        assert error == "On the Ray cluster: KeyError: 'no such key'"
        # A disk that is full there fails no run.
        engine._execute = ray.remote(_raises(DiskFullError("The disk is full.")))
        with pytest.raises(DiskFullError, match="No space left for"):
            run_sweep(plan, tmp_path, engine, retry_failed=True)
    finally:
        engine.close()
    assert json.loads((tmp_path / plan.runs[0].hash() / "run.json").read_text())["error"] == error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ray.exceptions.NodeDiedError("The node is gone.\nMore."), (False, "Lost 4 times: The node is gone.")),
        (ray.exceptions.OutOfMemoryError("90%"), (False, "Ended by Ray, out of memory: 90%")),
        (ray.exceptions.OutOfDiskError("95%"), (True, None)),
        (
            ray.exceptions.TaskUnschedulableError("No such node."),
            (
                False,
                "Failed in Ray (TaskUnschedulableError): The task is not schedulable: No such node.",
            ),
        ),
        (ray.exceptions.RayError(), (False, "Failed in Ray (RayError): RayError")),
    ],
)
def test_what_is_said_of_each_kind_of_error(error, expected):
    full, message = _describe_loss(ray.exceptions, error)
    assert full == expected[0]
    assert expected[1] in (None, message)
    assert "\n" not in message


def test_an_unreachable_cluster_is_one_line(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
        with pytest.raises(ValueError, match=f"The Ray cluster at {address} cannot be reached") as error:
            RayEngine(tmp_path, address)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="should be host:port"):
        RayEngine(tmp_path, "nonsense")


@pytest.mark.parametrize("answer", [None, b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_address_that_is_no_ray_is_one_line(tmp_path, monkeypatch, answer):
    monkeypatch.setattr("momentalign.sweep._ray._CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                if answer is None:  # silent
                    connection.settimeout(5)
                    while connection.recv(100):
                        pass
                connection.sendall(answer or b"")

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            ValueError, match=f"The Ray cluster at {address} cannot be reached: .*Is 'ray start'"
        ) as error:
            RayEngine(tmp_path, address)
        thread.join()
    assert "\n" not in str(error.value)


def test_a_broken_image_is_left_out_there_too(tmp_path, cluster):
    save_model("resnet", tmp_path / "resnet")
    write_images(tmp_path / "images", per_class=5)
    (tmp_path / "images" / "night" / "dog" / "3.png").write_bytes(b"no image")
    plan = make_plan(
        [str(tmp_path / "images")],
        ["erm"],
        **{"trials": 1, "hparams": 1, "steps": 2, "test_domains": ["day"], "encoder": str(tmp_path / "resnet")},
        overrides={"batch_size": 4},
    )
    engine = RayEngine(tmp_path / "runs", cluster.address)
    try:
        without = run_sweep(plan, tmp_path / "runs", engine)
        assert "3.png should be an image" in without.failed[plan.runs[0].hash()]
        tally = run_sweep(plan, tmp_path / "runs", engine, retry_failed=True, skip_bad_files=True)
    finally:
        engine.close()
    assert (tally.finished, tally.failed) == (1, {})
    assert "images: 1 unreadable file skipped: night/dog/3.png." in tally.notes
