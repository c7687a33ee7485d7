import numpy as np
import pandas as pd
import pytest

from momentalign.sweep import LocalEngine


@pytest.fixture(scope="session")
def engine():
    """Two processes for all tests: starting them takes longer than what most tests do with them."""
    engine = LocalEngine(2, accelerator="cpu")
    yield engine
    engine.close()


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
