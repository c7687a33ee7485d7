"""A run's checkpoint: the network's weights, and under other names the rest of the state that resuming needs."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from momentalign._errors import first_line
from momentalign._model_file import (
    CHECKPOINT,
    MODEL,
    DamagedModelError,
    model_path,
    read_about,
    read_model,
    write_model,
)
from momentalign.algorithms import Algorithm
from momentalign.runs import RunFolder, read_records

_STATE = "state/"
"""Prefix of the tensors that are not the network's."""


@dataclass(frozen=True)
class Position:
    """Where a run resumes: the next step, and the size of the records before it."""

    step: int = 0
    records_bytes: int = 0


class Part(Protocol):
    """Further state that resuming needs: tensors by name, and plain values."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Copy out the state."""

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore it."""


def save_checkpoint(
    folder: Path,
    weights: Mapping[str, Tensor],
    description: Mapping[str, Any],
    position: Position,
    algorithm: Algorithm,
    optimizers: Mapping[str, Optimizer],
    parts: Mapping[str, Part],
) -> None:
    """Replace the checkpoint."""
    tensors, values = dict(weights), dict[str, Any]()
    for name, part in {"run": _RunState(algorithm, optimizers), **parts}.items():
        own, values[name] = part.state()
        tensors |= {f"{_STATE}{name}/{key}": tensor for key, tensor in own.items()}
    write_model(folder / CHECKPOINT, tensors, {**description, "position": asdict(position), "state": values})


def read_weights(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the description and the weights of a run's network, finished or not."""
    about, tensors = read_model(model_path(folder))
    return about, {name: tensor for name, tensor in tensors.items() if not name.startswith(_STATE)}


def find_position(folder: Path) -> Position:
    """Where a run resumes: at step 0 where there is no checkpoint, or a damaged one."""
    try:
        return _position(folder, read_about(folder / CHECKPOINT)) if (folder / CHECKPOINT).exists() else Position()
    except DamagedModelError:
        return Position()


def restore(
    folder: Path,
    algorithm: Algorithm,
    optimizers: Mapping[str, Optimizer],
    parts: Mapping[str, Part],
    *,
    steps: int,
    warn: bool = True,
) -> Position:
    """Restore an algorithm, its network not wrapped, its optimizers and parts; unchanged where there is no checkpoint.

    A damaged checkpoint is ignored, with a warning if `warn`, and so is one at a step of `steps` or beyond: the run
    starts again.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return Position()
    try:
        about, tensors = read_model(path)
        position = _position(folder, about)
        if not 1 <= position.step < steps:
            raise DamagedModelError(f"{path} should be at a step of the run, but is at {position.step}.")
    except DamagedModelError as error:
        if warn:
            warnings.warn(f"{error} The run starts again from step 0.", stacklevel=2)
        return Position()
    try:
        weights = {f"network.{name}": tensor for name, tensor in tensors.items() if not name.startswith(_STATE)}
        for name, part in {"run": _RunState(algorithm, optimizers, weights), **parts}.items():
            prefix = f"{_STATE}{name}/"
            own = {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
            part.load(own, about["state"].get(name, {}))
    except (RuntimeError, KeyError, ValueError) as error:
        raise ValueError(
            f"The checkpoint in {folder} does not fit this run ({first_line(error)}). Remove {folder} to start again."
        ) from None
    return position


def _position(folder: Path, about: Mapping[str, Any]) -> Position:
    position = Position(**about["position"])
    records = folder / "records.jsonl"
    if records.is_file() and records.stat().st_size < position.records_bytes:  # not a link to a device
        raise DamagedModelError(f"{records} lacks records from before the checkpoint.")
    return position


def finish_trained(folder: RunFolder) -> bool:
    """Finish a run that was killed between its model and `run.json`; returns whether it is finished now."""
    try:
        about, records = read_about(folder.path / MODEL), read_records(folder.path)
    except (ValueError, OSError):
        return False
    if not folder.info or not records or records[-1]["step"] != folder.config.steps - 1:
        return False
    folder.finish(weights=about.get("weights"))
    return True


class _RunState:
    """State of an algorithm, without that of its network, and of its optimizers."""

    def __init__(
        self, algorithm: Algorithm, optimizers: Mapping[str, Optimizer], weights: Mapping[str, Tensor] | None = None
    ) -> None:
        self.algorithm, self.optimizers, self.weights = algorithm, optimizers, weights or {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors by name, and the optimizers' plain values."""
        own = self.algorithm.state_dict().items()
        tensors = {f"algorithm.{name}": tensor for name, tensor in own if not name.startswith("network.")}
        plain: dict[str, Any] = {}
        for name, optimizer in self.optimizers.items():
            plain[name] = {}
            for index, state in optimizer.state_dict()["state"].items():
                for key, value in state.items():
                    if isinstance(value, Tensor):
                        tensors[f"{name}.{index}.{key}"] = value
                    else:
                        plain[name].setdefault(str(index), {})[key] = value
        return tensors, plain

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore it, with the network's weights."""
        own = {name.removeprefix("algorithm."): t for name, t in tensors.items() if name.startswith("algorithm.")}
        self.algorithm.load_state_dict({**self.weights, **own})
        for name, optimizer in self.optimizers.items():
            state: dict[int, dict[str, Any]] = {int(index): dict(plain) for index, plain in values[name].items()}
            for path, tensor in tensors.items():
                if path.startswith(f"{name}."):
                    index, _, key = path.removeprefix(f"{name}.").partition(".")
                    state.setdefault(int(index), {})[key] = tensor
            _load_optimizer(optimizer, state)


def _load_optimizer(optimizer: Optimizer, state: Mapping[int, Mapping[str, Any]]) -> None:
    # The learning rate and other settings come from the configuration.
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    for parameter, values in optimizer.state.items():
        for key, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride():
                # The optimizer's kernels read memory in order, in any memory format.
                values[key] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
