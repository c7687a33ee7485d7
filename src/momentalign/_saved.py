"""A run's checkpoint as it lies on disk: tensors as safetensors, the rest as JSON.

`checkpoint/` is written beside its place and then put there, so that what lies under that name is whole. Between the
two renamings, and after a kill there, the one before lies in `checkpoint.old`: readers take it, the next writer puts it
back.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from momentalign._extras import require

FORMAT = 1
MODEL, WEIGHTS = "model.json", "model.safetensors"


def checkpoint_of(folder: Path) -> Path:
    """Where the last whole checkpoint of a run is to be read; nothing is moved, since another process may be training.

    Args:
        folder: The run's folder.

    Returns:
        The folder, which is not there where nothing has been written yet.
    """
    place, old = folder / "checkpoint", folder / "checkpoint.old"
    return old if old.exists() and not place.exists() else place


def read_model(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the model of a run, finished or not.

    Args:
        folder: The run's folder.

    Returns:
        What `model.json` says, and the weights.

    Raises:
        ValueError: There is none yet, or it cannot be read.
    """
    place = checkpoint_of(folder)
    if not (place / MODEL).exists():
        raise ValueError(f"{folder} has no checkpoint with weights. Train it first, or until its first record.")
    return read_values(place / MODEL), read_tensors(place / WEIGHTS)


def read_values(path: Path, *needed: str) -> dict[str, Any]:
    """Read a file of values.

    Args:
        path: A JSON file of a checkpoint.
        *needed: Names of values that it has to have.

    Returns:
        What it says.

    Raises:
        ValueError: It is damaged, or of another version's format.
    """
    damaged = f"{path} cannot be read. Remove {path.parent.parent} and run the same again."
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        form = found["format"]
    except (ValueError, TypeError, KeyError):
        raise ValueError(damaged) from None
    if form != FORMAT:
        raise ValueError(f"{path} is of format {form}, but this version reads format {FORMAT}. Update momentalign.")
    if set(needed) - set(found):
        raise ValueError(damaged)
    return found


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors.

    Args:
        path: A safetensors file of a checkpoint.

    Returns:
        Tensors by name.

    Raises:
        ValueError: It is damaged or missing.
    """
    safetensors = _safetensors()
    try:
        found: dict[str, Tensor] = safetensors.torch.load_file(path)
        return found
    except (safetensors.SafetensorError, FileNotFoundError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}). Remove {path.parent.parent} and run the same again."
        ) from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a file of tensors.

    Args:
        path: Where to.
        tensors: By name, on any device.

    Raises:
        OSError: The disk is full, for instance.
    """
    safetensors = _safetensors()
    # Copies: the format wants tensors that share no memory.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(copies, path)
    except safetensors.SafetensorError as error:  # its own name for what the disk says
        raise OSError(f"{path} could not be written: {error}") from None


def _safetensors() -> Any:
    require("safetensors.torch", "Weights need", extra="cli")
    return require("safetensors", "Weights need", extra="cli")
