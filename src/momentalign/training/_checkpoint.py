"""A run's checkpoint: weights, and the rest of the state that resuming needs."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
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
    """Where a run resumes: the next step, and the size of the records before it."""

    step: int = 0
    records_bytes: int = 0


class Part(Protocol):
    """State beside the algorithm's and the optimizers' that resuming needs: tensors by name, and plain values."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Copy out the state."""

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore it."""


def save_checkpoint(
    folder: Path,
    weights: Mapping[str, Tensor],
    description: Mapping[str, Any],
    training: tuple[Algorithm, Mapping[str, Optimizer], Position] | None = None,
    parts: Mapping[str, Part] | None = None,
) -> None:
    """Replace the checkpoint; `training` and `parts` are the state that resuming needs, None for a finished run."""
    path, new, old = (folder / name for name in ("checkpoint", "checkpoint.tmp", "checkpoint.old"))
    shutil.rmtree(new, ignore_errors=True)
    if old.exists() and not path.exists():
        old.rename(path)
    try:
        new.mkdir(parents=True)
        write_tensors(new / WEIGHTS, weights)
        write_json(new / MODEL, {"format": CHECKPOINT_FORMAT, **description})
        if training is not None:
            algorithm, optimizers, position = training
            tensors, plain = _pack(algorithm, optimizers)
            write_tensors(new / "state.safetensors", tensors)
            state = {"format": CHECKPOINT_FORMAT, **asdict(position), "optimizers": plain}
            for name, part in (parts or {}).items():
                tensors, state[name] = part.state()
                write_tensors(new / f"{name}.safetensors", tensors)
            write_json(new / "state.json", state)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a run that saves none."""
    for name in ("checkpoint", "checkpoint.old"):
        shutil.rmtree(folder / name, ignore_errors=True)


def find_position(folder: Path) -> Position:
    """Where a run resumes: at step 0 where there is no checkpoint."""
    path = checkpoint_of(folder) / "state.json"
    if not path.exists():
        return Position()
    state = read_values(path, "step", "records_bytes", "optimizers")
    return Position(state["step"], state["records_bytes"])


def restore(
    folder: Path,
    algorithm: Algorithm,
    optimizers: Mapping[str, Optimizer],
    parts: Mapping[str, Part] | None = None,
) -> Position:
    """Restore an algorithm, its network not wrapped, its optimizers and parts; unchanged where is no checkpoint."""
    position = find_position(folder)
    if position.step == 0:
        return position
    path = checkpoint_of(folder)
    tensors = read_tensors(path / "state.safetensors")
    values = read_values(path / "state.json", "optimizers")
    plain = values["optimizers"]
    weights = read_tensors(path / WEIGHTS)
    try:
        own = {name.removeprefix("algorithm."): t for name, t in tensors.items() if name.startswith("algorithm.")}
        algorithm.load_state_dict({**{f"network.{name}": tensor for name, tensor in weights.items()}, **own})
        for name, optimizer in optimizers.items():
            _restore_optimizer(optimizer, f"optimizer.{name}.", tensors, plain[name])
        for name, part in (parts or {}).items():
            part.load(read_tensors(path / f"{name}.safetensors") if name in values else {}, values.get(name, {}))
    except (RuntimeError, KeyError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"The checkpoint in {path} does not fit this run ({reason}). Remove {folder} to start again."
        ) from None
    return position


def finish_trained(folder: RunFolder) -> bool:
    """Finish a run that was killed between its last weights and `run.json`; returns whether it is finished now.

    The weights of a finished run come after the last record, without the state that resuming needs.
    """
    path = folder.path / "checkpoint"
    if not folder.info or not (path / MODEL).exists() or (path / "state.json").exists():
        return False
    records = read_records(folder.path)
    if not records or records[-1]["step"] != folder.config.steps - 1:
        return False
    shutil.rmtree(folder.path / "checkpoint.old", ignore_errors=True)
    folder.finish(weights=read_values(path / MODEL).get("weights"))
    return True


def _pack(algorithm: Algorithm, optimizers: Mapping[str, Optimizer]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """State that is not the network's: tensors by name, and the optimizers' plain values."""
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
    # The learning rate and other settings come from the configuration.
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    for parameter, values in optimizer.state.items():
        for key, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride():
                # The optimizer's kernels read memory in order, in any memory format.
                values[key] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
