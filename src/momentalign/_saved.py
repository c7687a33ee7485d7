"""A run's checkpoint on disk: tensors as safetensors, the rest as JSON.

`checkpoint/` is written under another name and renamed, so that it is always complete. Between the two renames, and
after a kill there, the previous one is `checkpoint.old`: readers use it, the next writer restores it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from momentalign._extras import require
from momentalign._json import read_json

if TYPE_CHECKING:  # runs/ does without torch
    from torch import Tensor

CHECKPOINT_FORMAT = 1
MODEL, WEIGHTS = "model.json", "model.safetensors"


def checkpoint_of(folder: Path) -> Path:
    """Path of a run's last complete checkpoint, which may not exist; moves nothing, another process may be training."""
    path, old = folder / "checkpoint", folder / "checkpoint.old"
    return old if old.exists() and not path.exists() else path


def read_model(folder: Path) -> tuple[dict[str, Any], dict[str, "Tensor"]]:
    """Read the description and the weights of a run's network, finished or not."""
    path = checkpoint_of(folder)
    if not (path / MODEL).exists():
        raise ValueError(f"{folder} has no checkpoint with weights. Train it first, or until its first record.")
    return read_values(path / MODEL), read_tensors(path / WEIGHTS)


def read_values(path: Path, *required: str) -> dict[str, Any]:
    """Read a JSON file of a checkpoint, which should have the required keys."""
    damaged = f"{path} cannot be read. Remove {path.parent.parent} and run the same command again."
    try:
        values: dict[str, Any] = read_json(path, nonfinite=True)
        form = values["format"]
    except (ValueError, TypeError, KeyError):
        raise ValueError(damaged) from None
    if form != CHECKPOINT_FORMAT:
        raise ValueError(
            f"{path} has format {form}, but this version reads format {CHECKPOINT_FORMAT}. Update momentalign."
        )
    if set(required) - set(values):
        raise ValueError(damaged)
    return values


def read_tensors(path: Path) -> dict[str, "Tensor"]:
    """Read a safetensors file of a checkpoint."""
    safetensors = _safetensors()
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
        return tensors
    except (safetensors.SafetensorError, FileNotFoundError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}). Remove {path.parent.parent} and run the same command again."
        ) from None


def write_tensors(path: Path, tensors: Mapping[str, "Tensor"]) -> None:
    """Write a safetensors file; raises OSError where the disk is full."""
    safetensors = _safetensors()
    # Copies: the format wants tensors that share no memory.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(copies, path)
    except safetensors.SafetensorError as error:  # how it reports errors of the disk
        raise OSError(f"{path} could not be written: {error}") from None


def _safetensors() -> Any:
    require("safetensors.torch", "Weights need", extra="cli")
    return require("safetensors", "Weights need", extra="cli")
