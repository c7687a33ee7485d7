"""A run's checkpoint: weights, and the rest of the state that resuming needs."""

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from momentalign._errors import first_line
from momentalign._files import atomic_folder, recover_folder, remove_folder
from momentalign._saved import (
    CHECKPOINT_FORMAT,
    MODEL,
    WEIGHTS,
    checkpoint_of,
    read_model,
    read_tensors,
    read_values,
    write_tensors,
)
from momentalign._sealed import FILES, DamagedFileError, digests_of
from momentalign.algorithms import Algorithm
from momentalign.runs import RunFolder, read_records, write_json

_STATE, _TENSORS = "state.json", "state.safetensors"


@dataclass(frozen=True)
class Position:
    """Where a run resumes: the next step, and size and sha256 of the records before it."""

    step: int = 0
    records_bytes: int = 0
    records_sha256: str = ""


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
    training: tuple[Algorithm, Mapping[str, Optimizer], Position] | None = None,
    parts: Mapping[str, Part] | None = None,
) -> None:
    """Replace the checkpoint; `training` and `parts` are the state that resuming needs, None for a finished run."""
    with atomic_folder(folder / "checkpoint") as new:
        write_tensors(new / WEIGHTS, weights)
        files = digests_of([new / WEIGHTS])
        write_json(new / MODEL, {"format": CHECKPOINT_FORMAT, **description, FILES: files})
        if training is not None:
            algorithm, optimizers, position = training
            tensors, plain = _pack(algorithm, optimizers)
            written = [new / _TENSORS]
            write_tensors(new / _TENSORS, tensors)
            state = {"format": CHECKPOINT_FORMAT, **asdict(position), "optimizers": plain}
            for name, part in (parts or {}).items():
                tensors, state[name] = part.state()
                written.append(new / f"{name}.safetensors")
                write_tensors(written[-1], tensors)
            write_json(new / _STATE, {**state, FILES: files | digests_of(written)})


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a run that saves none."""
    for name in ("checkpoint", "checkpoint.old"):
        remove_folder(folder / name)


def find_position(folder: Path) -> Position:
    """Where a run resumes: at step 0 where there is no checkpoint, or a damaged one."""
    try:
        return _read_state(folder)[1]
    except DamagedFileError:
        return Position()


def restore(
    folder: Path,
    algorithm: Algorithm,
    optimizers: Mapping[str, Optimizer],
    parts: Mapping[str, Part] | None = None,
    *,
    steps: int | None = None,
    warn: bool = True,
) -> Position:
    """Restore an algorithm, its network not wrapped, its optimizers and parts; unchanged where there is no checkpoint.

    A damaged checkpoint is ignored, with a warning if `warn`, and so is one at a step of `steps` or beyond: the run
    starts again.
    """
    path = checkpoint_of(folder)
    try:
        values, position = _read_state(folder, steps)
        if not values:
            return position
        tensors, weights = read_tensors(path / _TENSORS, values), read_tensors(path / WEIGHTS, values)
        more = {name: read_tensors(path / f"{name}.safetensors", values) for name in parts or {} if name in values}
    except DamagedFileError as error:
        if warn:
            warnings.warn(f"{error.path} {error.reason}. The run starts again from step 0.", stacklevel=2)
        return Position()
    plain = values["optimizers"]
    try:
        own = {name.removeprefix("algorithm."): t for name, t in tensors.items() if name.startswith("algorithm.")}
        algorithm.load_state_dict({**{f"network.{name}": tensor for name, tensor in weights.items()}, **own})
        for name, optimizer in optimizers.items():
            _restore_optimizer(optimizer, f"optimizer.{name}.", tensors, plain[name])
        for name, part in (parts or {}).items():
            part.load(more.get(name, {}), values.get(name, {}))
    except (RuntimeError, KeyError, ValueError) as error:
        raise ValueError(
            f"The checkpoint in {path} does not fit this run ({first_line(error)}). Remove {folder} to start again."
        ) from None
    return position


def _read_state(folder: Path, steps: int | None = None) -> tuple[dict[str, Any], Position]:
    """Values of a checkpoint that can be resumed from, and its position; both empty where there is none."""
    path = checkpoint_of(folder) / _STATE
    if not path.parent.exists():
        return {}, Position()
    if not path.exists():  # finished weights, but of a run that is not finished
        raise DamagedFileError(path, "does not exist")
    values = read_values(path, "step", "records_bytes", "optimizers")
    try:
        position = Position(int(values["step"]), int(values["records_bytes"]), str(values.get("records_sha256", "")))
    except (TypeError, ValueError):
        raise DamagedFileError(path, "is damaged") from None
    if position.step < 1 or (steps is not None and position.step >= steps):
        raise DamagedFileError(path, f"should be at a step of the run, but is at {position.step}")
    records = folder / "records.jsonl"
    if records.is_file():  # not a link to a device
        with records.open("rb") as file:
            content = file.read(position.records_bytes)
        digest = hashlib.sha256(content).hexdigest()
        if len(content) < position.records_bytes or position.records_sha256 not in ("", digest):
            raise DamagedFileError(records, "lacks records from before the checkpoint, or they are damaged")
    return values, position


def finish_trained(folder: RunFolder) -> bool:
    """Finish a run that was killed between its last weights and `run.json`; returns whether it is finished now.

    The weights of a finished run come after the last record, without the state that resuming needs.
    """
    path = folder.path / "checkpoint"
    if not folder.info or not (path / MODEL).exists() or (path / _STATE).exists():
        return False
    try:
        description, _ = read_model(folder.path)
        records = read_records(folder.path)
    except (ValueError, OSError):
        return False
    if not records or records[-1]["step"] != folder.config.steps - 1:
        return False
    recover_folder(path)
    folder.finish(weights=description.get("weights"))
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
