"""All of a captured step but the recording, on the host: state that is put back, rows by a counter, sums."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import momentalign.training._capture as capture
import momentalign.training._loop as loop
from momentalign.encoders import TensorPreprocessing
from momentalign.training import find_position, run
from momentalign.training._steps import BLOCK, Training
from tests.training.problems import (
    assert_same_weights,
    capture_on_the_host,
    cut_at,
    numbers,
    small_config,
    three_domains,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _recorded_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    capture_on_the_host(monkeypatch)


@pytest.mark.parametrize(
    "name",
    [
        "erm",
        "cma",
        "cma-momentum",
        "cma-diagonal",
        "fishr",
        "coral",
        "hgp",
        "irm",
        "vrex",
        "groupdro",
        "moment-alignment",
    ],
)
def test_warming_up_leaves_no_trace(name: str, tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, name, hparams={"lr": 2.0**-10})  # the same number as float32, which a device keeps
    for way in (True, False):
        run(config, tmp_path / str(way), data=data, accelerator="cpu", capture=way)
    # Where an empty buffer became one of zeros the order of a sum may change: to rounding, else bit by bit.
    if name in ("cma-momentum", "fishr"):
        first, second = (torch.tensor([value or 0.0 for value in curve(tmp_path / str(way))]) for way in (True, False))
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-6)
    else:
        assert_same_weights(tmp_path / "True", tmp_path / "False")
        assert numbers(tmp_path / "True") == numbers(tmp_path / "False")


def curve(folder: Path) -> list[float | None]:
    return [dict(record)["value"] for record in numbers(folder) if dict(record)["metric"] == "loss"]  # type: ignore[call-overload,misc]


def test_blocks_follow_one_another_and_a_cut_run_goes_on_in_the_middle(tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, "fishr", steps=BLOCK + 7, record_every=10, hparams={"anneal_steps": BLOCK + 2})
    run(config, tmp_path / "eager", data=data, accelerator="cpu", capture=False)
    with cut_at(BLOCK + 5):
        run(config, tmp_path / "cut", data=data, accelerator="cpu", capture=True, checkpoint_every=1)
    assert find_position(tmp_path / "cut").step == BLOCK + 1
    run(config, tmp_path / "cut", data=data, accelerator="cpu", capture=True)
    first, second = (torch.tensor([value or 0.0 for value in curve(tmp_path / name)]) for name in ("cut", "eager"))
    torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-5)


def test_a_schedule_is_read_from_the_device(tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, hparams={"schedule": "linear", "lr": 1e-2, "clip": 0.5})
    for way in (True, False):
        run(config, tmp_path / str(way), data=data, accelerator="cpu", capture=way)
    first, second = (torch.tensor([value or 0.0 for value in curve(tmp_path / str(way))]) for way in (True, False))
    torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-5)


def test_rows_that_are_augmented_outside_are_those_of_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(preprocessing: TensorPreprocessing, raw: Tensor) -> Tensor:
        return raw + torch.randn_like(raw)

    monkeypatch.setattr(TensorPreprocessing, "augment", noisy)
    monkeypatch.setattr(TensorPreprocessing, "capturable", False)
    data = three_domains()
    config = small_config(data, "cma", steps=BLOCK + 7, hparams={"lr": 2.0**-10})
    run(config, tmp_path / "eager", data=data, accelerator="cpu", capture=False)
    with cut_at(BLOCK + 5):
        run(config, tmp_path / "copied", data=data, accelerator="cpu", capture=True, checkpoint_every=1)
    run(config, tmp_path / "copied", data=data, accelerator="cpu", capture=True)
    assert_same_weights(tmp_path / "copied", tmp_path / "eager")
    assert numbers(tmp_path / "copied") == numbers(tmp_path / "eager")


def test_a_step_that_waits_for_the_device_is_launched_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(function: Callable[[], None], training: Training) -> str:
        function()
        return "called a synchronizing CUDA operation"

    monkeypatch.setattr(capture, "_warm_up", refuse)
    data, notes = three_domains(), list[str]()
    config = small_config(data, hparams={"lr": 2.0**-10})
    with pytest.raises(ValueError, match=r"cannot be captured: called a synchronizing CUDA operation. Omit 'capture'"):
        run(config, tmp_path / "asked", data=data, accelerator="cpu", capture=True)
    monkeypatch.setattr(loop, "choose_capture", lambda asked, *_: asked is None)
    run(config, tmp_path / "auto", data=data, accelerator="cpu", log=notes.append)
    run(config, tmp_path / "eager", data=data, accelerator="cpu", capture=False)
    assert notes[-1].startswith("The step cannot be captured in a CUDA graph")
    assert_same_weights(tmp_path / "auto", tmp_path / "eager")
    assert numbers(tmp_path / "auto") == numbers(tmp_path / "eager")


def test_a_host_cannot_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    data = three_domains()
    with pytest.raises(ValueError, match="'capture' needs one CUDA device"):
        run(small_config(data), tmp_path / "run", data=data, accelerator="cpu", capture=True)
