"""A run's checkpoint on disk: tensors as safetensors, the rest as JSON.

`checkpoint/` is written by :func:`momentalign._files.atomic_folder`, so it is always complete. Its JSON files have
checksums of themselves and of the tensors beside them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from momentalign._extras import require
from momentalign._files import last_complete
from momentalign._sealed import FILES, DamagedFileError, check_file, unseal

if TYPE_CHECKING:  # runs/ does without torch
    from torch import Tensor

CHECKPOINT_FORMAT = 1
MODEL, WEIGHTS = "model.json", "model.safetensors"


def checkpoint_of(folder: Path) -> Path:
    """Path of a run's last complete checkpoint; it may not exist. Safe while another process trains."""
    return last_complete(folder / "checkpoint")


def read_model(folder: Path) -> tuple[dict[str, Any], dict[str, "Tensor"]]:
    """Read the description and the weights of a run's network, finished or not."""
    path = checkpoint_of(folder)
    if not (path / MODEL).exists():
        raise ValueError(f"{folder} has no checkpoint with weights. Train it first, or until its first record.")
    description = read_values(path / MODEL)
    return description, read_tensors(path / WEIGHTS, description)


def read_values(path: Path, *required: str) -> dict[str, Any]:
    """Read a JSON file of a checkpoint, which should have the required keys.

    Raises:
        DamagedFileError: It cannot be parsed, lacks a key or does not match its checksum.
        ValueError: It is of another format.
    """
    values = unseal(path, advice=_advice(path), nonfinite=True)
    if "format" not in values or (values["format"] == CHECKPOINT_FORMAT and set(required) - set(values)):
        raise DamagedFileError(path, "is damaged", _advice(path))
    if values["format"] != CHECKPOINT_FORMAT:
        raise ValueError(
            f"{path} has format {values['format']}, but this version reads format {CHECKPOINT_FORMAT}. Update "
            "momentalign."
        )
    return values


def read_tensors(path: Path, values: Mapping[str, Any]) -> dict[str, "Tensor"]:
    """Read a safetensors file of a checkpoint; `values` of the JSON file beside it hold its checksum.

    Raises:
        DamagedFileError: It cannot be parsed or does not match its checksum.
    """
    safetensors = _safetensors()
    check_file(path, values.get(FILES, {}), advice=_advice(path))
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
        return tensors
    except (safetensors.SafetensorError, FileNotFoundError) as error:
        raise DamagedFileError(path, f"cannot be read ({error})", _advice(path)) from None


def write_tensors(path: Path, tensors: Mapping[str, "Tensor"]) -> None:
    """Write a safetensors file; raises OSError where the disk is full."""
    safetensors = _safetensors()
    # Copies: the format wants tensors that share no memory.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(copies, path)
    except safetensors.SafetensorError as error:  # how it reports errors of the disk
        raise OSError(f"{path} could not be written: {error}") from None


def _advice(path: Path) -> str:
    return f"Remove {path.parent.parent} and run the same command again."


def _safetensors() -> Any:
    require("safetensors.torch", "Weights need", extra="cli")
    return require("safetensors", "Weights need", extra="cli")
