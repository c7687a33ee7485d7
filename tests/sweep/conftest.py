import os

import numpy as np
import pandas as pd
import pytest

from momentalign.sweep import LocalEngine


@pytest.fixture(scope="session")
def sign(tmp_path_factory):
    """A path that all workers know: they have the environment of their start."""
    path = tmp_path_factory.mktemp("signs") / "sign"
    os.environ["MOMENTALIGN_TEST_SIGN"] = str(path)
    yield path
    del os.environ["MOMENTALIGN_TEST_SIGN"]


@pytest.fixture(scope="session")
def engine(sign):
    """Two processes for all tests: starting them takes longer than what most tests do with them."""
    engine = LocalEngine(2, accelerator="cpu")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def cluster(sign):
    ray = pytest.importorskip("ray", reason="Ray is an extra")
    from ray.cluster_utils import Cluster

    # Ray gives its workers the lowest priority: beside other tests they would wait for minutes.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (Ray reads it so)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    del os.environ["RAY_worker_niceness"]  # noqa: SIM112


@pytest.fixture
def grouped(tmp_path):
    """A file of features whose rows have groups and published splits."""
    rng = np.random.default_rng(0)
    n = 240
    labels, water = rng.integers(2, size=n), rng.random(n) < 0.5
    frame = pd.DataFrame(rng.normal(size=(n, 3)) + labels[:, None], columns=["x0", "x1", "x2"])
    frame["y"] = labels
    frame["domain"] = np.where(water, "water", "land")
    frame["group"] = frame["y"].astype(str) + frame["domain"]
    frame["split"] = np.resize(["train", "train", "val", "test"], n)
    path = tmp_path / "birds.csv"
    frame.to_csv(path, index=False)
    return str(path)
