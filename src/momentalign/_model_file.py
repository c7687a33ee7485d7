"""Saved models: one safetensors file each, with its description as JSON in the header.

Reading runs no code. A run's folder has `checkpoint.safetensors` while it runs and `model.safetensors` when it is done.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import momentalign
from momentalign._extras import require
from momentalign._files import atomic_file

MODEL, CHECKPOINT = "model.safetensors", "checkpoint.safetensors"
MODEL_FORMAT = 2
_ABOUT = "about"


class DamagedModelError(ValueError):
    """A file of weights cannot be read, for instance because it was cut short."""


def write_model(path: Path, tensors: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write tensors of torch, or arrays of NumPy, and their description atomically; OSError where the disk is full."""
    library, tensors, metadata = _packed(tensors, about)
    with atomic_file(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        try:
            library.save_file(tensors, temporary, metadata)
        except _safetensors().SafetensorError as error:  # how it reports errors of the disk
            raise OSError(f"{path} could not be written: {error}") from None
        temporary.chmod(mode)  # safetensors lets nobody else read it


def model_bytes(tensors: Mapping[str, Any], about: Mapping[str, Any]) -> bytes:
    """Content of the file that :func:`write_model` writes."""
    library, tensors, metadata = _packed(tensors, about)
    content: bytes = library.save(tensors, metadata)
    return content


def _packed(tensors: Mapping[str, Any], about: Mapping[str, Any]) -> tuple[Any, dict[str, Any], dict[str, str]]:
    """Module of safetensors, tensors as it takes them, and metadata."""
    kind = "torch" if any(hasattr(tensor, "detach") for tensor in tensors.values()) else "numpy"
    if kind == "torch":  # copies: the format wants tensors that share no memory
        tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    text = json.dumps({**about, "format": MODEL_FORMAT, "momentalign": momentalign.__version__}, ensure_ascii=False)
    return require(f"safetensors.{kind}", "Weights need", extra="cli"), dict(tensors), {_ABOUT: text}


def read_model(path: Path, kind: str = "pt") -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the description and the tensors of a file, for torch ("pt") or NumPy ("np").

    Raises:
        ValueError: There is no such file, it cannot be read, or another version wrote it.
    """
    with _opened(path, kind) as (about, file):
        return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def read_about(path: Path) -> dict[str, Any]:
    """Read the description of a file alone, as :func:`read_model`."""
    with _opened(path, "np") as (about, _):
        return about


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[tuple[dict[str, Any], Any]]:
    if not path.exists():
        check_version(path.parent)
        raise ValueError(f"{path.parent} has no weights ({path.name}). Train it first, or until its first checkpoint.")
    library = _safetensors()
    try:
        with library.safe_open(path, kind) as file:
            about = json.loads((file.metadata() or {}).get(_ABOUT, "{}"))
            if about.get("format") == MODEL_FORMAT:
                yield about, file
                return
    except (OSError, ValueError, AttributeError, library.SafetensorError) as error:
        raise DamagedModelError(
            f"{path} is damaged ({error}). Remove {path.parent} and run the same command again."
        ) from None
    check_version(path.parent)
    if "format" not in about:
        raise ValueError(f"{path} should be a model that momentalign saved, but is another file.")
    raise ValueError(f"{path} has format {about['format']}, but this version reads {MODEL_FORMAT}. Update momentalign.")


def model_path(folder: Path) -> Path:
    """Path of a run's finished model, else of its checkpoint, which may not exist."""
    return path if (path := folder / MODEL).exists() else folder / CHECKPOINT


def check_version(folder: Path) -> None:
    """Raise ValueError where version 0.1 wrote a folder's model, in other files."""
    for name in ("run.json", MODEL.replace(".safetensors", ".json")):
        try:
            about = json.loads((folder / name).read_bytes())
            old, version = about["format"] < MODEL_FORMAT, about.get("momentalign")
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if old:
            raise ValueError(
                f"{folder} was written by momentalign {version}, whose weights this version does not read; its records "
                "stay readable. Train it again in another folder, or use that version."
            )


def _safetensors() -> Any:
    return require("safetensors", "Weights need", extra="cli")
