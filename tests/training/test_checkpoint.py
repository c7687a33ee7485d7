import json
from pathlib import Path

import pytest
import torch
from torch.optim import Optimizer

from momentalign._model_file import CHECKPOINT, MODEL, read_about, read_model, write_model
from momentalign.algorithms import Algorithm, Batch
from momentalign.training import find_position
from momentalign.training._checkpoint import Position, read_weights, restore, save_checkpoint
from momentalign.training._model import build_algorithm, describe_network, parts_of
from tests.training.problems import images, small_config, three_domains


def algorithm_after(steps: int, name: str = "fishr") -> tuple[Algorithm, dict[str, Optimizer]]:
    algorithm = build_algorithm(small_config(three_domains(), name), three_domains())
    optimizers = algorithm.optimizers()
    advance(algorithm, optimizers, steps)
    return algorithm, optimizers


def advance(algorithm: Algorithm, optimizers: dict[str, Optimizer], steps: int) -> None:
    for step in range(steps):
        rows = images(8, 0.1, step)
        batch = Batch(rows.tensor, rows.targets, torch.tensor([0] * 4 + [1] * 4))
        algorithm.update(batch, optimizers, lambda loss: loss.backward())


def save(folder: Path, algorithm: Algorithm, optimizers: dict[str, Optimizer], step: int = 3) -> None:
    network, _ = parts_of(algorithm)
    about = describe_network(network, three_domains())
    save_checkpoint(folder, network.state_dict(), about, Position(step, 100 * step), algorithm, optimizers, {})


@pytest.mark.parametrize("name", ["erm", "fishr", "cma-momentum", "groupdro", "dann"])
def test_weights_averages_and_optimizer_come_back_bit_by_bit(name: str, tmp_path: Path) -> None:
    algorithm, optimizers = algorithm_after(3, name)
    save(tmp_path, algorithm, optimizers)
    fresh, its = algorithm_after(0, name)
    assert restore(tmp_path, fresh, its, {}, steps=20) == find_position(tmp_path) == Position(3, 300)
    advance(algorithm, optimizers, 2)
    advance(fresh, its, 2)
    ours, theirs = algorithm.state_dict(), fresh.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[key]) for key, tensor in ours.items())


def test_without_a_checkpoint_it_starts_at_the_beginning(tmp_path: Path) -> None:
    assert restore(tmp_path, *algorithm_after(0), {}, steps=20) == find_position(tmp_path) == Position(0, 0)
    with pytest.raises(ValueError, match=r"has no weights"):
        read_weights(tmp_path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_last_checkpoint(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, optimizers = algorithm_after(1)
    save(tmp_path, algorithm, optimizers)

    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(type(error)):
        save(tmp_path, algorithm, optimizers, step=7)
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
    assert find_position(tmp_path).step == 3


def test_a_model_is_read_before_a_checkpoint_and_holds_no_other_state(tmp_path: Path) -> None:
    algorithm, optimizers = algorithm_after(1)
    save(tmp_path, algorithm, optimizers)
    network, encoder = parts_of(algorithm)
    for _ in range(2):
        about, weights = read_weights(tmp_path)
        assert (about["encoder"], about["classes"]) == (encoder.config(), ["dark", "bright"])
        assert weights.keys() == network.state_dict().keys()
        if not (tmp_path / MODEL).exists():
            (tmp_path / CHECKPOINT).replace(tmp_path / MODEL)
    write_model(tmp_path / "a.safetensors", {}, {"step": 1})
    assert read_model(tmp_path / "a.safetensors")[1] == {}
    (tmp_path / "text").touch()
    assert (tmp_path / "a.safetensors").stat().st_mode == (tmp_path / "text").stat().st_mode


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    save(tmp_path, *algorithm_after(1, "erm"))
    with pytest.raises(ValueError, match=r"does not fit this run .* Remove .* to start again"):
        restore(tmp_path, *algorithm_after(0, "groupdro"), {}, steps=20)


def test_a_damaged_checkpoint_is_named_and_the_run_starts_again(tmp_path: Path) -> None:
    save(tmp_path, *algorithm_after(1, "erm"))
    content = (tmp_path / CHECKPOINT).read_bytes()
    fresh, its = algorithm_after(0, "erm")
    before = {key: tensor.clone() for key, tensor in fresh.state_dict().items()}
    for damaged in (b"", content[:50], content[:-1]):
        (tmp_path / CHECKPOINT).write_bytes(damaged)
        with pytest.warns(UserWarning, match=rf"{CHECKPOINT} is damaged .*The run starts again from step 0\."):
            assert restore(tmp_path, fresh, its, {}, steps=20) == find_position(tmp_path) == Position()
        with pytest.raises(ValueError, match=rf"{CHECKPOINT} is damaged .*Remove"):
            read_weights(tmp_path)
    assert all(torch.equal(tensor, before[key]) for key, tensor in fresh.state_dict().items())
    assert not any(optimizer.state for optimizer in its.values())


@pytest.mark.parametrize("step", [0, 20])
def test_a_step_outside_the_run_is_not_the_end_of_it(step: int, tmp_path: Path) -> None:
    save(tmp_path, *algorithm_after(1, "erm"), step=step)
    with pytest.warns(UserWarning, match=rf"should be at a step of the run, but is at {step}"):
        assert restore(tmp_path, *algorithm_after(0, "erm"), {}, steps=20) == Position()


@pytest.mark.parametrize("name", ["run.json", "model.json"])
def test_a_model_of_an_older_version_is_refused_by_its_version(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(json.dumps({"format": 1, "momentalign": "0.1.0"}))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"was written by momentalign 0\.1\.0"):
            read_about(tmp_path / MODEL)
        (tmp_path / MODEL).write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match="is another file"):
        read_about(tmp_path / MODEL)


def test_a_model_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("momentalign._model_file.MODEL_FORMAT", 9)
        write_model(tmp_path / MODEL, {}, {})
    with pytest.raises(ValueError, match="has format 9"):
        read_about(tmp_path / MODEL)
