from pathlib import Path

import pytest

from momentalign._extras import require_lightning
from momentalign.runs import read_records
from momentalign.training import _run, run
from tests.training.problems import TIMES, assert_same_weights, small_config, three_domains

pytestmark = pytest.mark.slow


def test_one_cpu_without_lightning_trains_what_fabric_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = three_domains()
    config = small_config(data, "cma")
    run(config, tmp_path / "alone", data=data, accelerator="cpu")
    fabric = require_lightning("fabric", "Training needs").Fabric
    monkeypatch.setattr(_run, "make_fabric", lambda **_: fabric(accelerator="cpu", devices=1, precision="32-true"))
    run(config, tmp_path / "fabric", data=data, accelerator="cpu")
    assert_same_weights(tmp_path / "alone", tmp_path / "fabric")
    alone, theirs = (
        [record for record in read_records(tmp_path / name) if record["metric"] not in TIMES]
        for name in ("alone", "fabric")
    )
    assert alone == theirs
