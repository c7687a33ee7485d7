"""Encoders by name, folder or description."""

import difflib
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from momentalign._saved import MODEL, checkpoint_of, read_values
from momentalign.data import DomainDataset, Items, Split, TableRows
from momentalign.encoders import _huggingface as hf
from momentalign.encoders._base import Encoder
from momentalign.encoders._hub import fetch_model
from momentalign.encoders._images import ImagePreprocessing
from momentalign.encoders._mlp import MLP
from momentalign.encoders._mnist_cnn import MNIST_CNN
from momentalign.encoders._run import encoder_from_run
from momentalign.encoders._table import TablePreprocessing
from momentalign.encoders._text import text_from_folder
from momentalign.encoders._timm import convert_timm, is_timm
from momentalign.encoders._vision import vision_from_folder
from momentalign.encoders._vision_outputs import main_input

_SMALL = 16
"""Pixels below which MNIST_CNN has a quarter of its width."""


def build_encoder(spec: str | None, dataset: DomainDataset, training: Sequence[Split] | None = None) -> Encoder:
    """Build the encoder that people name, for a data set.

    Args:
        spec: `mnist-cnn`; `mlp`; `hf:NAME` of a model on the hub, optionally `hf:NAME@REVISION`; a folder in Hugging
            Face format, or `hf:FOLDER`; `hf-config:FOLDER` for that architecture with random weights; the folder of a
            finished run. `?size=112` after a vision model's name or folder sets the size of its images. None for the
            default of the data set: `mnist-cnn` for small images that are tensors, `mlp` for tables.
        dataset: What it should read.
        training: The rows that it will be trained on. Of a table only these tell what its columns mean; None takes
            the "train" or "in" split of every domain.

    Returns:
        The encoder.

    Raises:
        ValueError: No such encoder, or one that does not fit the data set.
    """
    inputs = next(iter(next(iter(dataset.domains.values())).values())).inputs
    if spec is None:
        spec = default_encoder(dataset.name, dataset.training_recipe)
    encoder = _for_table(dataset, training) if spec == "mlp" and _is_table(dataset) else _named(spec, inputs)
    try:
        encoder.preprocessing.open(_no_rows(inputs))
    except ValueError as error:
        raise ValueError(f"Encoder '{spec}' does not fit {dataset.name}. {error}") from None
    is_normalised = isinstance(inputs, Tensor) and inputs.is_floating_point()
    if is_normalised and isinstance(encoder.preprocessing, ImagePreprocessing):
        warnings.warn(
            f"The images of {dataset.name} are floating-point numbers, taken as normalised for the encoder already: "
            "they are used as they are, without augmentation. Give bytes (torch.uint8) to have both done.",
            stacklevel=2,
        )
    return encoder


def default_encoder(name: str, recipe: str) -> str:
    """What people mean who name no encoder.

    Args:
        name: The data set's.
        recipe: Its training recipe.

    Returns:
        As for :func:`build_encoder`.

    Raises:
        ValueError: Images and texts have no default.
    """
    specs = {"mnist": "mnist-cnn", "table": "mlp"}
    if recipe in specs:
        return specs[recipe]
    example = "bert-base-uncased" if recipe == "text" else "google/vit-base-patch16-224"
    raise ValueError(
        f"{name} needs an encoder of its own, for instance '--encoder hf:{example}' or a folder in Hugging Face format."
    )


def is_small_network(spec: str) -> bool:
    """Whether an encoder is one of this package's own, which are trained from scratch.

    Args:
        spec: As for :func:`build_encoder`.

    Returns:
        True for `mnist-cnn`, `mlp`, and the folder of a run that has one of them; nothing is built or downloaded.
    """
    if spec in _SMALL_NETWORKS:
        return True
    description = checkpoint_of(Path(spec.removeprefix("hf:")).expanduser()) / MODEL
    try:
        return description.is_file() and read_values(description)["encoder"]["kind"] in _SMALL_NETWORKS
    except (ValueError, KeyError, TypeError):  # whoever builds the encoder says what is wrong with it
        return False


def encoder_from_folder(folder: str | Path, *, weights: bool = True, size: int | None = None) -> Encoder:
    """Read a vision or text encoder from a folder in Hugging Face format, or a plain vision transformer in timm's.

    Args:
        folder: With `config.json`, and as a rule `model.safetensors` and the files of the preprocessing.
        weights: Whether to load the weights; they are random otherwise.
        size: Size of a vision model's images where it should be another than the model's own.

    Returns:
        The encoder.
    """
    return _from_folder(Path(folder), weights=weights, size=size, source=str(folder))


def _named(spec: str, inputs: Tensor | Items) -> Encoder:
    if spec in _SMALL_NETWORKS:
        return _SMALL_NETWORKS[spec](_row_shape(spec, inputs))
    kind, colon, rest = spec.partition(":")
    if not colon or kind not in ("hf", "hf-config"):
        kind, rest = "", spec
    path, size = _size_suffix(rest, spec)
    folder = Path(path).expanduser()
    if folder.is_dir():
        if (checkpoint_of(folder) / MODEL).is_file():
            return encoder_from_run(folder)
        return _from_folder(folder, weights=kind != "hf-config", size=size, source=spec)
    if kind == "hf" and not path.startswith(("/", ".", "~")):
        name, _, revision = path.partition("@")
        return _from_folder(fetch_model(name, revision or None), weights=True, size=size, source=spec)
    if kind or "/" in spec or "\\" in spec:
        hint = f" A model on the hub is named 'hf:{spec}'." if not kind and spec.count("/") < 2 else ""
        raise ValueError(f"Encoder '{spec}' should be a folder, but {folder} is none.{hint}")
    near = difflib.get_close_matches(spec, _SMALL_NETWORKS, 1)
    raise ValueError(
        f"There is no encoder '{spec}'. Known: {', '.join(_SMALL_NETWORKS)}, hf:NAME, hf-config:FOLDER, a folder in "
        "Hugging Face format and the folder of a finished run." + (f" Meant '{near[0]}'?" if near else "")
    )


def _is_table(dataset: DomainDataset) -> bool:
    return any(isinstance(rows.inputs, TableRows) for splits in dataset.domains.values() for rows in splits.values())


def _for_table(dataset: DomainDataset, training: Sequence[Split] | None) -> Encoder:
    """An MLP for the columns of a table, as the training rows show them."""
    if training is None:
        name = "train" if "train" in dataset.split_names else "in"
        training = [splits[name] for splits in dataset.domains.values() if name in splits]
    everything = [rows for splits in dataset.domains.values() for rows in splits.values()]
    preprocessing, notes = TablePreprocessing.learn(_table(training))
    encoder = MLP(preprocessing.width, preprocessing=preprocessing)
    encoder.notes = (*dataset.notes, *notes, *preprocessing.remarks(_table(everything), dataset.name))
    return encoder


def _table(parts: Sequence[Split]) -> TableRows:
    found = [part.inputs for part in parts if isinstance(part.inputs, TableRows) and len(part)]
    if not found:
        raise ValueError("A table should have rows to train on, but has none.")
    return TableRows.joined(found)


def _from_folder(folder: Path, *, weights: bool, size: int | None, source: str) -> Encoder:
    if (folder / hf.CONFIG_FILE).is_file() and is_timm(hf.read_json(folder / hf.CONFIG_FILE)):
        with tempfile.TemporaryDirectory() as target:
            convert_timm(folder, Path(target), weights=weights)
            return _from_folder(Path(target), weights=weights, size=size, source=source)
    architecture = hf.read_architecture(folder)
    if hasattr(architecture, "vision_config") or main_input(architecture) == "pixel_values":
        return vision_from_folder(folder, architecture, weights=weights, size=size, source=source)
    if size is not None:
        raise ValueError(f"'?size=' sets the size of images, but {source} is an encoder of texts.")
    return text_from_folder(folder, architecture, weights=weights, source=source)


def _size_suffix(path: str, spec: str) -> tuple[str, int | None]:
    path, _, option = path.partition("?")
    if not option:
        return path, None
    name, _, value = option.partition("=")
    if name != "size" or not value.isdecimal() or int(value) < 1:
        raise ValueError(f"After '?' an encoder takes a size, as in '{path}?size=112', but '{spec}' has '{option}'.")
    return path, int(value)


def _row_shape(spec: str, inputs: Tensor | Items) -> tuple[int, ...]:
    ndim = {"mnist-cnn": 3, "mlp": 1}[spec]
    if isinstance(inputs, Items) or inputs.ndim - 1 != ndim:
        found = inputs.kind if isinstance(inputs, Items) else f"of shape {tuple(inputs.shape[1:])}"
        wanted = "images as tensors (channels, height, width)" if ndim == 3 else "rows of numbers"
        raise ValueError(f"Encoder '{spec}' takes {wanted}, but the rows are {found}.")
    return tuple(inputs.shape[1:])


_SMALL_NETWORKS: Mapping[str, Callable[[tuple[int, ...]], Encoder]] = {
    "mnist-cnn": lambda shape: MNIST_CNN(shape[0], 16 if max(shape[1:]) < _SMALL else 64),
    "mlp": lambda shape: MLP(shape[0]),
}


def _no_rows(inputs: Tensor | Items) -> Any:
    return inputs.rows(torch.arange(0)) if isinstance(inputs, Items) else inputs[:0]
