"""A run's checkpoint: weights, and what else training needs to go on."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from momentalign._saved import (
    CHECKPOINT_FORMAT,
    MODEL,
    WEIGHTS,
    checkpoint_of,
    read_tensors,
    read_values,
    write_tensors,
)
from momentalign.algorithms import Algorithm
from momentalign.runs import RunFolder, read_records, write_json


@dataclass(frozen=True)
class Position:
    """Where a run is.

    Attributes:
        step: The step that comes next.
        records_bytes: Length of the records up to there.
    """

    step: int = 0
    records_bytes: int = 0


def save_checkpoint(
    folder: Path,
    network: nn.Module,
    description: Mapping[str, Any],
    training: tuple[Algorithm, Mapping[str, Optimizer], Position] | None = None,
) -> None:
    """Write a checkpoint in place of the last one.

    Args:
        folder: The run's folder.
        network: What was trained, not wrapped.
        description: What `model.json` says, beside the weights.
        training: What going on needs; None for a run that is finished.
    """
    place, new, old = (folder / name for name in ("checkpoint", "checkpoint.tmp", "checkpoint.old"))
    shutil.rmtree(new, ignore_errors=True)
    if old.exists() and not place.exists():
        old.rename(place)
    try:
        new.mkdir(parents=True)
        write_tensors(new / WEIGHTS, network.state_dict())
        write_json(new / MODEL, {"format": CHECKPOINT_FORMAT, **description})
        if training is not None:
            algorithm, optimizers, position = training
            tensors, plain = _pack(algorithm, optimizers)
            write_tensors(new / "state.safetensors", tensors)
            write_json(
                new / "state.json",
                {
                    "format": CHECKPOINT_FORMAT,
                    "step": position.step,
                    "records_bytes": position.records_bytes,
                    "optimizers": plain,
                },
            )
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a run that goes on without writing any."""
    for name in ("checkpoint", "checkpoint.old"):
        shutil.rmtree(folder / name, ignore_errors=True)


def find_position(folder: Path) -> Position:
    """Where the run of a folder would go on.

    Args:
        folder: The run's folder.

    Returns:
        The beginning where there is no checkpoint to go on from.
    """
    path = checkpoint_of(folder) / "state.json"
    if not path.exists():
        return Position()
    state = read_values(path, "step", "records_bytes", "optimizers")
    return Position(state["step"], state["records_bytes"])


def restore(folder: Path, algorithm: Algorithm, optimizers: Mapping[str, Optimizer]) -> Position:
    """Bring an algorithm and its optimizers to where the run stopped.

    Args:
        folder: The run's folder.
        algorithm: As the configuration builds it, its network not wrapped.
        optimizers: Its optimizers.

    Returns:
        Where to go on; the beginning, and nothing changed, where there is no checkpoint.
    """
    position = find_position(folder)
    if position.step == 0:
        return position
    place = checkpoint_of(folder)
    tensors = read_tensors(place / "state.safetensors")
    plain = read_values(place / "state.json", "optimizers")["optimizers"]
    weights = read_tensors(place / WEIGHTS)
    try:
        own = {name.removeprefix("algorithm."): t for name, t in tensors.items() if name.startswith("algorithm.")}
        algorithm.load_state_dict({**{f"network.{name}": tensor for name, tensor in weights.items()}, **own})
        for name, optimizer in optimizers.items():
            _restore_optimizer(optimizer, f"optimizer.{name}.", tensors, plain[name])
    except (RuntimeError, KeyError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"The checkpoint in {place} does not fit this run ({reason}). Remove the folder {folder} to start anew."
        ) from None
    return position


def finish_trained(folder: RunFolder) -> bool:
    """Finish a run that was ended between writing its last weights and saying that it is finished.

    The weights of a finished run come without what going on needs, after the last record. A run that still has to
    train is left as it is.

    Args:
        folder: Of a run that does not say that it is finished.

    Returns:
        Whether it is finished now.
    """
    place = folder.path / "checkpoint"
    if not folder.info or not (place / MODEL).exists() or (place / "state.json").exists():
        return False
    records = read_records(folder.path)
    if not records or records[-1]["step"] != folder.config.steps - 1:
        return False
    shutil.rmtree(folder.path / "checkpoint.old", ignore_errors=True)
    folder.finish()
    return True


def _pack(algorithm: Algorithm, optimizers: Mapping[str, Optimizer]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What is not the network's: tensors by name, and the optimizers' plain values."""
    tensors = {
        f"algorithm.{name}": tensor
        for name, tensor in algorithm.state_dict().items()
        if not name.startswith("network.")
    }
    plain: dict[str, Any] = {}
    for name, optimizer in optimizers.items():
        plain[name] = {}
        for index, state in optimizer.state_dict()["state"].items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{name}.{index}.{key}"] = value
                else:
                    plain[name].setdefault(str(index), {})[key] = value
    return tensors, plain


def _restore_optimizer(
    optimizer: Optimizer, prefix: str, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]
) -> None:
    state: dict[int, dict[str, Any]] = {int(index): dict(values) for index, values in plain.items()}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            index, _, key = name.removeprefix(prefix).partition(".")
            state.setdefault(int(index), {})[key] = tensor
    # Learning rate and the like come from the configuration.
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    for parameter, values in optimizer.state.items():
        for key, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride():
                # The optimizer's kernels go through memory in order, whatever the memory format is.
                values[key] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
