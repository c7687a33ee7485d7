"""Which output of a vision model its features are, and what of the model takes part in them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from momentalign.encoders import _huggingface as hf

CLIP_TOWER = "clip_vision_model"
_CLS_TOKEN = ("vit", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit", "vit_msn")
"""Models whose first token stands for the image. A pooler after it was trained for another task, or not at all."""
_OPTIONAL_POOLER = ("vit", "deit")

_READ: dict[str, Callable[[Any], Tensor]] = {
    "cls": lambda output: output.last_hidden_state[:, 0],
    "pooler": lambda output: output.pooler_output.flatten(1),
    "mean": lambda output: output.last_hidden_state.mean((2, 3) if output.last_hidden_state.ndim == 4 else 1),
    "projection": lambda output: output.image_embeds,
}


class Outputs(NamedTuple):
    """What a forward and a backward pass say about a model.

    Attributes:
        features: Which output the features are: "cls", "pooler", "mean" or "projection".
        num_features: Their width.
        unused: Names of the parameters that do not reach them.
    """

    features: str
    num_features: int
    unused: frozenset[str]


def model_class(architecture: Any) -> tuple[Any, dict[str, Any]]:
    """Class that builds a vision model, and further arguments that its `from_pretrained` takes."""
    library = hf.transformers()
    if architecture.model_type == CLIP_TOWER:
        return library.CLIPVisionModelWithProjection, {}
    settings = {"add_pooling_layer": False} if architecture.model_type in _OPTIONAL_POOLER else {}
    return library.AutoModel, {"trust_remote_code": False, **settings}


def random_model(architecture: Any) -> Any:
    """Build a model with random weights in single precision.

    Args:
        architecture: Its configuration.

    Returns:
        The model.

    Raises:
        ValueError: The library has no model for it, or the values do not fit each other.
    """
    builder, settings = model_class(architecture)
    try:
        with hf.quiet():
            if architecture.model_type == CLIP_TOWER:
                return builder(architecture).float()
            return builder.from_config(architecture, **settings).float()
    except (ValueError, RuntimeError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"A model of type '{architecture.model_type}' cannot be built: {reason}") from None


def main_input(architecture: Any) -> str:
    """What a model's forward pass calls its inputs: "pixel_values" for images, "input_ids" for texts."""
    with torch.device("meta"):
        return str(random_model(architecture).main_input_name)


def read_features(model: Any, features: str, images: Tensor) -> Tensor:
    """Features of a batch of images, shape (n, num_features)."""
    return _READ[features](model(pixel_values=images, return_dict=True))


def inspect(architecture: Any, size: int, features: str | None = None) -> Outputs:
    """Find out what a model's features are, by one pass in each direction with shapes alone.

    Args:
        architecture: The model's configuration.
        size: Height and width of the images.
        features: Which output to read; the model's type decides if not given.

    Returns:
        The output, its width and the parameters that do not reach it.

    Raises:
        ValueError: The model refuses images of this size.
    """
    try:
        try:
            return _inspect_on("meta", architecture, size, features)
        except (NotImplementedError, RuntimeError):  # a model that looks at values needs some
            return _inspect_on("cpu", architecture, size, features)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"A model of type '{architecture.model_type}' does not take images of {size} × {size}: {reason}"
        ) from None


def _inspect_on(device: str, architecture: Any, size: int, features: str | None) -> Outputs:
    with torch.device(device):
        model = random_model(architecture).eval()  # norms over a batch of one would not train
        output = model(pixel_values=torch.zeros(1, 3, size, size), return_dict=True)
    features = features or _features_of(architecture.model_type, output)
    read = _READ[features](output)
    if read.ndim != 2:
        raise ValueError(f"its features have shape {tuple(read.shape)}, not (n, features)")
    read.sum().backward()
    unused = frozenset(name for name, parameter in model.named_parameters() if parameter.grad is None)
    return Outputs(features, read.shape[1], unused)


def _features_of(kind: str, output: Any) -> str:
    if kind == CLIP_TOWER:
        return "projection"
    if kind in _CLS_TOKEN:
        return "cls"
    return "pooler" if output.get("pooler_output") is not None else "mean"
