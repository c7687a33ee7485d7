"""The times of a fine-tuning step, on a small encoder."""

import json
from pathlib import Path

import pytest

from benchmarks import steps

pytestmark = pytest.mark.slow


def test_a_line_for_every_way_of_running_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("kornia.augmentation")
    transformers.MobileNetV2Config(depth_multiplier=0.25, image_size=32).save_pretrained(tmp_path / "model")
    out = tmp_path / "steps.json"
    options = ["--size", "32", "--steps", "1", "--rows", "40", "--algorithms", "erm,cma", "--out", str(out)]
    assert steps.main([f"hf-config:{tmp_path / 'model'}", *options]) == 0
    assert "augmentation:" in capsys.readouterr().out
    rows = json.loads(out.read_text())["rows"]
    assert [row["name"] for row in rows][:2] == ["erm, operation by operation", "cma, operation by operation"]
    assert rows[0]["time_ratio"] == 1
