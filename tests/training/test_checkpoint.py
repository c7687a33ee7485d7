import json
from pathlib import Path

import pytest
import torch
from torch.optim import Optimizer

from momentalign._saved import read_model
from momentalign.algorithms import Algorithm, Batch
from momentalign.training import find_position
from momentalign.training._checkpoint import Position, restore, save_checkpoint
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
    state = algorithm, optimizers, Position(step, 100 * step)
    save_checkpoint(folder, network.state_dict(), describe_network(network, three_domains()), state)


@pytest.mark.parametrize("name", ["erm", "fishr", "cma-momentum", "groupdro"])
def test_weights_averages_and_optimizer_come_back_bit_by_bit(name: str, tmp_path: Path) -> None:
    algorithm, optimizers = algorithm_after(3, name)
    save(tmp_path, algorithm, optimizers)
    fresh, its = algorithm_after(0, name)
    assert restore(tmp_path, fresh, its) == find_position(tmp_path) == Position(3, 300)
    advance(algorithm, optimizers, 2)
    advance(fresh, its, 2)
    ours, theirs = algorithm.state_dict(), fresh.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[key]) for key, tensor in ours.items())


def test_without_a_checkpoint_it_starts_at_the_beginning(tmp_path: Path) -> None:
    assert restore(tmp_path, *algorithm_after(0)) == Position(0, 0)
    with pytest.raises(ValueError, match=r"has no checkpoint with weights"):
        read_model(tmp_path)


def test_a_failed_write_keeps_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, optimizers = algorithm_after(1)
    save(tmp_path, algorithm, optimizers)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("momentalign.training._checkpoint.write_json", full)
    with pytest.raises(OSError, match=r"No space"):
        save(tmp_path, algorithm, optimizers, step=7)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert find_position(tmp_path).step == 3


def test_a_kill_between_the_renamings_loses_nothing(tmp_path: Path) -> None:
    algorithm, optimizers = algorithm_after(1)
    save(tmp_path, algorithm, optimizers)
    (tmp_path / "checkpoint").rename(tmp_path / "checkpoint.old")
    assert find_position(tmp_path).step == 3
    assert read_model(tmp_path)[0]["classes"] == ["dark", "bright"]
    fresh, its = algorithm_after(0)
    assert restore(tmp_path, fresh, its) == Position(3, 300)
    assert all(torch.equal(tensor, fresh.state_dict()[key]) for key, tensor in algorithm.state_dict().items())
    # Readers move nothing.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.old"]
    save(tmp_path, algorithm, optimizers, step=4)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert find_position(tmp_path).step == 4


def test_a_failed_write_after_such_a_kill_keeps_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, optimizers = algorithm_after(1)
    save(tmp_path, algorithm, optimizers)
    (tmp_path / "checkpoint").rename(tmp_path / "checkpoint.old")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("momentalign.training._checkpoint.write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, algorithm, optimizers, step=7)
    assert find_position(tmp_path).step == 3


def test_a_second_kill_between_the_renamings_loses_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, optimizers = algorithm_after(1)
    save(tmp_path, algorithm, optimizers)
    (tmp_path / "checkpoint").rename(tmp_path / "checkpoint.old")
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path.name.startswith(".checkpoint."):
            raise KeyboardInterrupt
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, algorithm, optimizers, step=7)
    assert find_position(tmp_path).step == 3


def test_the_finished_model_leaves_no_state_behind(tmp_path: Path) -> None:
    algorithm, optimizers = algorithm_after(1)
    save(tmp_path, algorithm, optimizers)
    network, encoder = parts_of(algorithm)
    save_checkpoint(tmp_path, network.state_dict(), describe_network(network, three_domains()))
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == ["model.json", "model.safetensors"]
    description, weights = read_model(tmp_path)
    assert description["encoder"] == encoder.config()
    assert description["classes"] == ["dark", "bright"]
    assert weights.keys() == network.state_dict().keys()


def test_what_does_not_fit_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    algorithm, optimizers = algorithm_after(1, "erm")
    save(tmp_path, algorithm, optimizers)
    with pytest.raises(ValueError, match=r"does not fit this run .* Remove .* to start again"):
        restore(tmp_path, *algorithm_after(0, "groupdro"))
    state = tmp_path / "checkpoint" / "state.json"
    state.write_text(json.dumps({"format": 9}))
    with pytest.raises(ValueError, match=r"has format 9"):
        find_position(tmp_path)


def flip(path: Path, position: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_checkpoint_is_named_and_the_run_starts_again(name: str, damage: str, tmp_path: Path) -> None:
    algorithm, optimizers = algorithm_after(1, "erm")
    save(tmp_path, algorithm, optimizers)
    path = tmp_path / "checkpoint" / name
    if damage == "flip":
        flip(path, path.read_bytes().index(b"3") if name == "state.json" else -1)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:50])
    else:
        path.unlink()
    fresh, its = algorithm_after(0, "erm")
    before = {key: tensor.clone() for key, tensor in fresh.state_dict().items()}
    with pytest.warns(UserWarning, match=rf"{name} (is|does|should|cannot) .*The run starts again from step 0\."):
        assert restore(tmp_path, fresh, its) == Position()
    assert all(torch.equal(tensor, before[key]) for key, tensor in fresh.state_dict().items())
    assert not any(optimizer.state for optimizer in its.values())


@pytest.mark.parametrize("damaged", ["{", "[]", "{}", '{"format": 1}'])
def test_a_state_of_the_wrong_kind(damaged: str, tmp_path: Path) -> None:
    save(tmp_path, *algorithm_after(1, "erm"))
    (tmp_path / "checkpoint" / "state.json").write_text(damaged)
    assert find_position(tmp_path) == Position()


@pytest.mark.parametrize("step", [0, -1, 20, 1000000000])
def test_a_step_outside_the_run_is_not_the_end_of_it(step: int, tmp_path: Path) -> None:
    save(tmp_path, *algorithm_after(1, "erm"), step=step)
    with pytest.warns(UserWarning, match=rf"state.json should be at a step of the run, but is at {step}. The run"):
        assert restore(tmp_path, *algorithm_after(0, "erm"), steps=20) == Position()


def test_weights_of_a_finished_run_that_are_damaged_are_named(tmp_path: Path) -> None:
    algorithm, _ = algorithm_after(1, "erm")
    network, _ = parts_of(algorithm)
    save_checkpoint(tmp_path, network.state_dict(), describe_network(network, three_domains()))
    flip(tmp_path / "checkpoint" / "model.safetensors")
    with pytest.raises(ValueError, match=r"model.safetensors does not match its checksum. Remove .* and run the same"):
        read_model(tmp_path)
