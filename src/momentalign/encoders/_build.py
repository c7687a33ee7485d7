"""Build encoders by name or folder."""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from momentalign._format import suggest
from momentalign._model_file import model_path, read_about
from momentalign.data import DomainDataset, ImageFiles, Items, Split, TableRows, data_folder
from momentalign.encoders import _huggingface as hf
from momentalign.encoders._base import Encoder
from momentalign.encoders._hub import fetch_model
from momentalign.encoders._images import ImagePreprocessing
from momentalign.encoders._networks import MLP, SmallNetwork
from momentalign.encoders._run import ENCODERS, encoder_from_run
from momentalign.encoders._table import TablePreprocessing
from momentalign.encoders._text import text_from_folder
from momentalign.encoders._vision import takes_images, vision_from_folder

_PARTS = re.compile(r"(hf:|hf-config:|)([^?]*)(.*)", re.DOTALL)
"""Kind, name or folder, and option of an encoder."""


def build_encoder(
    spec: str | None,
    dataset: DomainDataset,
    training: Sequence[Split] | None = None,
    *,
    root: str | Path | None = None,
) -> Encoder:
    """Build an encoder for a data set.

    Args:
        spec: `mnist-cnn`; `mlp`; `pixels`, which are no network; `hf:NAME` of a model on the hub, optionally
            `hf:NAME@REVISION`; a folder in Hugging Face format, or `hf:FOLDER`; `hf-config:FOLDER` for that
            architecture with random weights; the folder of a finished run. `?size=112` after a vision model's name or
            folder, `mnist-cnn` or `pixels` sets the size of its images. None for the default of the data set:
            `mnist-cnn` for small images, `mlp` for tables and coloured digits.
        dataset: Gives the shape of the inputs.
        training: The rows it will be trained on, from which the columns of a table are learned; None takes the "train"
            or "in" split of every domain.
        root: Data folder, where a relative path is looked up first.

    Raises:
        ValueError: There is no such encoder, or it does not fit the data set.
    """
    rows = next(iter(next(iter(dataset.domains.values())).values()))
    inputs = rows.inputs
    if spec is None:
        spec = default_encoder(dataset.name, dataset.training_recipe)
    if spec == "mlp" and isinstance(inputs, TableRows):
        encoder = _table_encoder(dataset, training)
    else:
        encoder = _encoder_by_name(spec, inputs, dataset, root)
    try:
        encoder.preprocessing.open(rows.rows(torch.arange(0)).inputs)
    except ValueError as error:
        raise ValueError(f"Encoder '{spec}' does not fit {dataset.name}. {error}") from None
    is_normalised = isinstance(inputs, Tensor) and inputs.is_floating_point()
    if is_normalised and isinstance(encoder.preprocessing, ImagePreprocessing):
        warnings.warn(
            f"The images of {dataset.name} are floating-point numbers and taken as already normalised: they are "
            "used unchanged, without augmentation. Give bytes (torch.uint8) for normalisation and augmentation.",
            stacklevel=2,
        )
    return encoder


def default_encoder(name: str, recipe: str) -> str:
    """Default encoder of a data set by its training recipe; large images and texts have none."""
    specs = {"mnist": "mnist-cnn", "digits": "mlp", "table": "mlp"}
    if recipe in specs:
        return specs[recipe]
    example = "bert-base-uncased" if recipe == "text" else "google/vit-base-patch16-224"
    small = "" if recipe == "text" else ", or 'mnist-cnn?size=32' for a small network on images of 32 × 32"
    raise ValueError(
        f"{name} has no default encoder. Choose one, for instance '--encoder hf:{example}' or a folder in Hugging Face "
        f"format{small}."
    )


def name_encoder(spec: str, root: str | Path | None = None) -> str:
    """Name an encoder in a run's configuration: a folder by its path in the data folder, or else its absolute path."""
    kind, path, option = _parts(spec)
    folder, data = _folder(path, root).absolute(), data_folder(root).absolute()
    if kind + path in _SMALL_NETWORKS or not folder.is_dir():
        return spec
    inside = folder.is_relative_to(data)  # a link in the data folder is in it
    return f"{kind}{folder.relative_to(data).as_posix() if inside else folder.resolve()}{option}"


def is_small_network(spec: str, root: str | Path | None = None) -> bool:
    """Whether `spec` is `mnist-cnn`, `mlp`, `pixels` or a run of one of them, which are trained from scratch.

    Nothing is built or downloaded.
    """
    if spec.partition("?")[0] in _SMALL_NETWORKS:
        return True
    folder = _folder(_parts(spec)[1], root)
    try:
        return _is_run(folder) and read_about(model_path(folder))["encoder"]["kind"] in _SMALL_NETWORKS
    except (ValueError, KeyError, TypeError):  # building the encoder reports what is wrong
        return False


def is_untrained(spec: str) -> bool:
    """Whether `spec` names a network without weights of its own, which are random before training."""
    name = spec.partition("?")[0]
    return name in _SMALL_NETWORKS and _SMALL_NETWORKS[name].is_random


def encoder_from_folder(folder: str | Path, *, weights: bool = True, size: int | None = None) -> Encoder:
    """Load a vision or text encoder from a folder in Hugging Face format, or a vision encoder in timm's.

    Args:
        folder: With `config.json`, and usually `model.safetensors` and the files of the preprocessing.
        weights: Whether to load the weights; they are random otherwise.
        size: Size of a vision model's images, if not the model's own.
    """
    return _from_folder(Path(folder), weights=weights, size=size, source=str(folder))


def _parts(spec: str) -> tuple[str, str, str]:
    found = _PARTS.fullmatch(spec)
    assert found is not None
    kind, path, option = found.groups()
    return kind, path, option


def _folder(path: str, root: str | Path | None) -> Path:
    inside = data_folder(root) / path  # an absolute path stays as it is
    return inside if path and inside.is_dir() else Path(path).expanduser()


def _is_run(folder: Path) -> bool:
    return (folder / "run.json").is_file()


def _encoder_by_name(spec: str, inputs: Tensor | Items, dataset: DomainDataset, root: str | Path | None) -> Encoder:
    kind, path, _ = _parts(spec)
    if kind + path in _SMALL_NETWORKS:
        return _small_network(spec, inputs, dataset)
    size = _size_suffix(spec)
    folder = _folder(path, root)
    if folder.is_dir():
        if _is_run(folder):
            return encoder_from_run(folder)
        return _from_folder(folder, weights=kind != "hf-config:", size=size, source=spec)
    if kind == "hf:" and not path.startswith(("/", ".", "~")):
        name, _, revision = path.partition("@")
        return _from_folder(fetch_model(name, revision or None), weights=True, size=size, source=spec)
    if kind or "/" in spec or "\\" in spec:
        hint = f" Use 'hf:{spec}' for a model on the hub." if not kind and spec.count("/") < 2 else ""
        raise ValueError(f"Encoder '{spec}' should be a folder, but {folder} does not exist.{hint}")
    raise ValueError(
        f"There is no encoder '{spec}'. Known: {', '.join(_SMALL_NETWORKS)}, hf:NAME, hf-config:FOLDER, a folder in "
        "Hugging Face format and the folder of a finished run." + suggest(spec, _SMALL_NETWORKS)
    )


def _small_network(spec: str, inputs: Tensor | Items, dataset: DomainDataset) -> Encoder:
    name, size = _parts(spec)[1], _size_suffix(spec)
    network = _SMALL_NETWORKS[name]
    if isinstance(inputs, ImageFiles) and network.sides is not None:
        least, most = network.sides
        side = size or min(max(least, dataset.image_side or most), most)
        if side < least:
            raise ValueError(f"Encoder '{name}' takes images of {least} × {least} at least, not '{spec}'.")
        return network.for_rows((3, side, side), side)
    if size is not None:
        raise ValueError(f"'?size=' sets the size of image files, but {dataset.name} has none. Use '{name}'.")
    takes_files = network.sides is not None
    if isinstance(inputs, Items) or inputs.ndim - 1 not in ((3,) if takes_files else (1, 3)):
        kind = inputs.kind if isinstance(inputs, Items) else f"of shape {tuple(inputs.shape[1:])}"
        files, numbers = "image files, or tensors (channels, height, width)", "rows of numbers, or images as tensors"
        raise ValueError(f"Encoder '{spec}' takes {files if takes_files else numbers}, but the rows are {kind}.")
    return network.for_rows(tuple(inputs.shape[1:]), None)


def _table_encoder(dataset: DomainDataset, training: Sequence[Split] | None) -> Encoder:
    """An MLP whose preprocessing is learned from the training rows of a table."""
    if training is None:
        name = dataset.training_split
        training = [splits[name] for splits in dataset.domains.values() if name in splits]
    everything = [rows for splits in dataset.domains.values() for rows in splits.values()]
    preprocessing, notes = TablePreprocessing.learn(_table(training))
    encoder = MLP(preprocessing.width, preprocessing=preprocessing)
    encoder.notes = (*dataset.notes, *notes, *preprocessing.describe_rows(_table(everything), dataset.name))
    return encoder


def _table(parts: Sequence[Split]) -> TableRows:
    """All rows of the parts."""
    inputs = [part.inputs for part in parts if isinstance(part.inputs, TableRows) and len(part)]
    if not inputs:
        raise ValueError("A table should have rows to train on, but has none.")
    return TableRows.joined(inputs)


def _from_folder(folder: Path, *, weights: bool, size: int | None, source: str) -> Encoder:
    architecture = hf.read_architecture(folder)
    if takes_images(architecture):
        return vision_from_folder(folder, architecture, weights=weights, size=size, source=source)
    if size is not None:
        raise ValueError(f"'?size=' sets the size of images, but {source} is a text encoder.")
    return text_from_folder(folder, architecture, weights=weights, source=source)


def _size_suffix(spec: str) -> int | None:
    _, path, option = _parts(spec)
    if option in ("", "?"):
        return None
    name, _, value = option[1:].partition("=")
    if name != "size" or not value.isdecimal() or int(value) < 1:
        raise ValueError(
            f"Encoder '{spec}' should have only a size after '?', as in '{path}?size=112', but has '{option[1:]}'."
        )
    return int(value)


_SMALL_NETWORKS = {kind: network for kind, network in ENCODERS.items() if issubclass(network, SmallNetwork)}
