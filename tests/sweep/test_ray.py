"""What only a Ray cluster does, with a real one of two nodes."""

import socket
from contextlib import closing

import pytest

ray = pytest.importorskip("ray", reason="Ray is an extra")

from momentalign.selection import read_runs  # noqa: E402
from momentalign.sweep import RayEngine, run_sweep  # noqa: E402
from momentalign.sweep._ray import _describe_loss  # noqa: E402
from tests.sweep.engines import BAD, plan_of  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.slow,
]


def test_a_node_that_dies_loses_no_run(tmp_path, cluster):
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    plan = plan_of(f"{BAD}:Slow", trials=4, steps=40, record_every=10)
    removed = []
    with closing(RayEngine(tmp_path, cluster.address)) as engine:
        assert engine.slots == 3
        assert "2 nodes" in engine.description

        def remove_in_the_middle(tally, event):
            begun = [path for path in tmp_path.glob("*/records.jsonl") if path.stat().st_size]
            if not removed and len(begun) == 3:
                cluster.remove_node(node, allow_graceful=False)
                removed.append(node)

        tally = run_sweep(plan, tmp_path, engine, progress=remove_in_the_middle)
    assert removed
    assert (tally.finished, tally.failed) == (4, {})
    assert read_runs(tmp_path).problems == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(run.hash() for run in plan.runs)


def test_a_machine_that_does_not_see_the_folder_is_one_line_before_any_work(tmp_path, cluster, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.touch", lambda path: None)
        with pytest.raises(ValueError, match="do not see") as error:
            RayEngine(tmp_path, cluster.address)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)
    with closing(RayEngine(tmp_path, cluster.address)) as engine:
        engine._marker.unlink()  # as seen from a machine that joins later
        with pytest.raises(ValueError, match="do not see"):
            run_sweep(plan_of(), tmp_path, engine)
    assert not list(tmp_path.glob("*/run.json"))


def test_what_the_cluster_lacks_is_said_before_the_start(tmp_path, cluster):
    with pytest.raises(
        ValueError, match=r"needs 64 cores on one machine of the Ray cluster, which has 2 cores and 0 G"
    ):
        RayEngine(tmp_path, cluster.address, cpus=64)
    with pytest.raises(ValueError, match=r"needs 1 cores and 0\.5 GPUs .* Use --device cpu to run without GPUs\."):
        RayEngine(tmp_path, cluster.address, accelerator="cuda", per_gpu=2)
    assert list(tmp_path.iterdir()) == []


def test_auto_takes_the_gpus_that_a_cluster_has(tmp_path, cluster):
    def engine(accelerator):
        return closing(RayEngine(tmp_path, cluster.address, accelerator=accelerator, per_gpu=3))

    with engine("auto") as none:
        assert none.accelerator == "cpu"
        assert none.description.endswith("2 at once")
    node = cluster.add_node(num_cpus=4, num_gpus=1)
    cluster.wait_for_nodes()
    try:
        with engine("auto") as found:
            assert (found.accelerator, found.slots) == ("cuda", 3)
            assert found.description.endswith("3 at once on GPUs")
        with engine("cpu") as without:
            assert (without.accelerator, without.slots) == ("cpu", 6)
    finally:
        cluster.remove_node(node)


@pytest.mark.parametrize(
    ("error", "full", "words"),
    [
        (ray.exceptions.NodeDiedError("The node is gone.\nMore."), False, "Lost 4 times: The node is gone."),
        (ray.exceptions.OutOfMemoryError("90%"), False, "Failed in Ray (OutOfMemoryError): 90%"),
        (ray.exceptions.OutOfDiskError("95%"), True, "95%"),
        (ray.exceptions.RayError(), False, "Failed in Ray (RayError): RayError"),
    ],
)
def test_errors_of_ray_itself(error, full, words):
    found, message = _describe_loss(ray.exceptions, error)
    assert found == full
    assert words in message
    assert "\n" not in message


def test_an_unreachable_cluster_is_one_line(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "nonsense"):
        with pytest.raises(ValueError, match=f"The Ray cluster at {address} cannot be reached: ") as error:
            RayEngine(tmp_path, address)
        assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
