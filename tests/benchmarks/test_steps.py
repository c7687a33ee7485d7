"""The times of a fine-tuning step, on a small encoder."""

from pathlib import Path

import pytest

from benchmarks import steps

pytestmark = pytest.mark.slow


def test_a_line_for_every_way_of_running_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("kornia.augmentation")
    transformers.MobileNetV2Config(depth_multiplier=0.25, image_size=32).save_pretrained(tmp_path / "model")
    code = steps.main(
        [f"hf-config:{tmp_path / 'model'}", "--size", "32", "--steps", "1", "--rows", "40", "--algorithms", "erm,cma"]
    )
    output = capsys.readouterr().out
    assert code == 0
    assert "augmentation:" in output
    assert "| 32 | eager |" in output
