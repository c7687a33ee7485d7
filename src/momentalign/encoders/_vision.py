"""Vision encoders in Hugging Face format: ViT, DINOv2, CLIP's image tower, ResNet, MobileNetV2 and similar."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from momentalign._errors import first_line
from momentalign.encoders import _huggingface as hf
from momentalign.encoders._images import ImagePreprocessing, read_image_settings

_TOWERS = ("clip", "siglip")
"""Models of images and texts whose image tower can be used."""
_CLIP_TOWER = "clip_vision_model"
_CLS_TOKEN = ("vit", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit", "vit_msn")
"""Models whose first token represents the image. A pooler after it was trained for another task, or not at all."""
_OPTIONAL_POOLER = ("vit", "deit")

_OUTPUTS: dict[str, Callable[[Any], Tensor]] = {
    "cls": lambda output: output.last_hidden_state[:, 0],
    "pooler": lambda output: output.pooler_output.flatten(1),
    "mean": lambda output: output.last_hidden_state.mean((2, 3) if output.last_hidden_state.ndim == 4 else 1),
    "projection": lambda output: output.image_embeds,
}


class HuggingFaceVision(hf.HuggingFaceEncoder):
    """A vision model of the transformers library.

    Which of the model's outputs are the features follows from its type, and is part of :meth:`config`:

    - ``cls``: the first token of the last hidden state, for ViT, DeiT, DINOv2 and DINOv3; the DomainBed experiments
      use ViT-S/16 this way.
    - ``projection``: CLIP's `image_embeds`, not normalised; the linear-probing experiments use these.
    - ``pooler``: the model's own pooled output, which for ResNet, ConvNeXt, MobileNetV2, EfficientNet and Swin is the
      global average.
    - ``mean``: the average over positions, for models that have none of these.

    Parameters that do not reach the features, such as a mask token, are frozen: a distributed run would wait for their
    gradients.

    Batch normalisation of a pretrained model keeps its running statistics in training, as in DomainBed: mini-batches of
    32 images would soon replace those of a million. Its scale and shift are trained. With random weights it is trained
    as usual.

    Args:
        features: Which output, as above; by default the model's type decides.
        keep_statistics: Whether batch normalisation keeps its running statistics.
    """

    kind = "huggingface-vision"
    preprocessing_class = ImagePreprocessing
    preprocessing: ImagePreprocessing
    capturable = True

    def __init__(
        self,
        model: Any,
        preprocessing: ImagePreprocessing,
        features: str | None = None,
        *,
        keep_statistics: bool = False,
        source: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.keep_statistics = keep_statistics
        self.model = model
        self.preprocessing, self.source, self.notes = preprocessing, source, notes
        self.features, self.num_features, unused = _inspect(model.config, preprocessing.size, features)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in unused)
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Set training mode, or evaluation mode with False; kept statistics stay in evaluation mode."""
        super().train(mode)
        if self.keep_statistics:
            for norm in self._batch_norms():
                norm.eval()
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the features of normalised images, shape (n, 3, size, size)."""
        return _OUTPUTS[self.features](self.model(pixel_values=inputs, return_dict=True))

    @staticmethod
    def build(architecture: Any) -> Any:
        model_class, settings = _model_class(architecture)
        build = model_class if architecture.model_type == _CLIP_TOWER else model_class.from_config
        return hf.random_model(build, architecture, **settings)

    def config(self) -> dict[str, Any]:
        return super().config() | ({"keep_statistics": self.keep_statistics} if self._batch_norms() else {})

    def _batch_norms(self) -> list[nn.Module]:
        return [module for module in self.model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]


def vision_from_folder(
    folder: Path, architecture: Any, *, weights: bool = True, size: int | None = None, source: str = ""
) -> HuggingFaceVision:
    """Build a vision encoder from a folder in Hugging Face format, with random weights if `weights` is False."""
    architecture = _image_tower(architecture, folder)
    preprocessing, notes = read_image_settings(folder, architecture, size)
    if not weights:
        notes = (*notes, "The encoder's weights are random.")
        return HuggingFaceVision(HuggingFaceVision.build(architecture), preprocessing, source=source, notes=notes)
    model_class, settings = _model_class(architecture)
    model, missing = hf.load_pretrained(model_class, folder, architecture, **settings)
    encoder = HuggingFaceVision(model, preprocessing, keep_statistics=True, source=source, notes=notes)
    unused = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    hf.check_complete(folder, missing - unused)
    return encoder


def takes_images(architecture: Any) -> bool:
    """Whether a configuration is of a vision model, or of one of images and texts."""
    if hasattr(architecture, "vision_config"):
        return True
    with torch.device("meta"):
        return bool(HuggingFaceVision.build(architecture).main_input_name == "pixel_values")


def _image_tower(architecture: Any, folder: Path) -> Any:
    """The part of a configuration that is about images."""
    if architecture.model_type in _TOWERS:
        tower = architecture.vision_config
        if architecture.model_type == "clip":
            tower.projection_dim = architecture.projection_dim
        return tower
    if hasattr(architecture, "vision_config"):
        raise ValueError(
            f"{folder} holds a model of images and texts of type '{architecture.model_type}', but an image encoder can "
            f"only be taken from {' and '.join(_TOWERS)}."
        )
    return architecture


def _model_class(architecture: Any) -> tuple[Any, dict[str, Any]]:
    """Class of a vision model, and arguments of its `from_pretrained`."""
    library = hf.transformers()
    if architecture.model_type == _CLIP_TOWER:
        return library.CLIPVisionModelWithProjection, {}
    settings = {"add_pooling_layer": False} if architecture.model_type in _OPTIONAL_POOLER else {}
    return library.AutoModel, {"trust_remote_code": False, **settings}


class _Outputs(NamedTuple):
    """The output that is read, its width, and the parameters that do not reach it."""

    features: str
    num_features: int
    unused: frozenset[str]


def _inspect(architecture: Any, size: int, features: str | None) -> _Outputs:
    """Find the output to read, its width and unused parameters by one forward and backward pass with shapes only."""
    try:
        try:
            return _inspect_on("meta", architecture, size, features)
        except (NotImplementedError, RuntimeError):  # a model whose forward pass depends on values
            return _inspect_on("cpu", architecture, size, features)
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"A model of type '{architecture.model_type}' does not take images of {size} × {size}: {first_line(error)}"
        ) from None


def _inspect_on(device: str, architecture: Any, size: int, features: str | None) -> _Outputs:
    with torch.device(device):
        model = HuggingFaceVision.build(architecture).eval()  # batch normalisation cannot train on a batch of one
        output = model(pixel_values=torch.zeros(1, 3, size, size), return_dict=True)
    features = features or _default_output(architecture.model_type, output)
    read = _OUTPUTS[features](output)
    if read.ndim != 2:
        raise ValueError(f"its features have shape {tuple(read.shape)}, not (n, features)")
    read.sum().backward()
    unused = frozenset(name for name, parameter in model.named_parameters() if parameter.grad is None)
    return _Outputs(features, read.shape[1], unused)


def _default_output(kind: str, output: Any) -> str:
    if kind == _CLIP_TOWER:
        return "projection"
    if kind in _CLS_TOKEN:
        return "cls"
    return "pooler" if output.get("pooler_output") is not None else "mean"
