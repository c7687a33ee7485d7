"""Vision encoders in Hugging Face format: ViT, DINOv2, CLIP's image tower, ResNet, MobileNetV2 and their like."""

from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from momentalign.encoders import _huggingface as hf
from momentalign.encoders._base import Encoder
from momentalign.encoders._image_settings import read_image_settings
from momentalign.encoders._images import ImagePreprocessing
from momentalign.encoders._vision_outputs import inspect, model_class, random_model, read_features

TOWERS = ("clip", "siglip")
"""Models of images and texts whose half for images can be taken."""


class HuggingFaceVision(Encoder):
    """A vision model of the transformers library, read as features.

    Which of the model's outputs the features are follows from its type, and is part of :meth:`config`:

    - ``cls``: the first token of the last hidden state, for ViT, DeiT, DINOv2 and DINOv3; the DomainBed experiments
      read ViT-S/16 so.
    - ``projection``: what CLIP compares with texts, its `image_embeds`, not normalised; the linear-probing
      experiments use these.
    - ``pooler``: the model's own pooled output, which for ResNet, ConvNeXt, MobileNetV2, EfficientNet and Swin is the
      global average.
    - ``mean``: the average over positions, for models that have none of these.

    Parameters that do not reach the features, such as a mask token, are frozen: a distributed run would wait for their
    gradients.

    Batch normalisation of a pretrained model keeps its running statistics, in training as in evaluation, as in
    DomainBed: mini-batches of 32 images would soon replace those of a million. Its scale and shift are trained.
    With random weights there is nothing to keep, and it is trained as usual.

    Args:
        model: The model.
        preprocessing: The images' size and normalisation.
        features: Which output, as above; the model's type decides if not given.
        keep_statistics: Whether batch normalisation keeps its running statistics.
        source: What it was built from, as people type it.
        notes: What was assumed, a sentence each.
    """

    preprocessing: ImagePreprocessing

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
        self.features, self.num_features, unused = inspect(model.config, preprocessing.size, features)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in unused)
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Go to training mode or, with False, to evaluation mode; statistics that are kept stay in the latter.

        Args:
            mode: Whether to train.

        Returns:
            The encoder.
        """
        super().train(mode)
        if self.keep_statistics:
            for norm in self._batch_norms():
                norm.eval()
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the features of a batch.

        Args:
            inputs: Normalised images, shape (n, 3, size, size).

        Returns:
            Features, shape (n, num_features).
        """
        return read_features(self.model, self.features, inputs)

    def config(self) -> dict[str, Any]:
        """Describe architecture and preprocessing, in values that JSON can hold."""
        # Only where it says something: most models have no batch normalisation.
        statistics = {"keep_statistics": self.keep_statistics} if self._batch_norms() else {}
        return {
            "kind": "huggingface-vision",
            "source": self.source,
            "features": self.features,
            "num_features": self.num_features,
            "architecture": hf.architecture_to_dict(self.model.config),
            "preprocessing": self.preprocessing.config(),
            **statistics,
            "transformers": hf.transformers().__version__,
        }

    def _batch_norms(self) -> list[nn.Module]:
        return [module for module in self.model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]


def vision_from_folder(
    folder: Path, architecture: Any, *, weights: bool = True, size: int | None = None, source: str = ""
) -> HuggingFaceVision:
    """Read a vision encoder from a folder in Hugging Face format.

    Args:
        folder: With `config.json`, and as a rule `model.safetensors` and `preprocessor_config.json`.
        architecture: What `config.json` says.
        weights: Whether to load the weights; they are random otherwise.
        size: Size of the images where it should be another than the model's own.
        source: What people typed.

    Returns:
        The encoder.
    """
    architecture = _image_tower(architecture, folder)
    preprocessing, notes = read_image_settings(folder, architecture, size)
    if not weights:
        notes = (*notes, "The encoder's weights are random.")
        return HuggingFaceVision(random_model(architecture), preprocessing, source=source, notes=notes)
    builder, settings = model_class(architecture)
    model, missing = hf.load_pretrained(builder, folder, architecture, **settings)
    encoder = HuggingFaceVision(model, preprocessing, keep_statistics=True, source=source, notes=notes)
    unused = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    hf.check_complete(folder, missing - unused)
    return encoder


def vision_from_config(config: dict[str, Any]) -> HuggingFaceVision:
    """Build a vision encoder with random weights from what :meth:`HuggingFaceVision.config` gave."""
    architecture = hf.architecture_from_dict(config["architecture"], "The encoder's configuration")
    settings = {name: value for name, value in config["preprocessing"].items() if name != "kind"}
    return HuggingFaceVision(
        random_model(architecture),
        ImagePreprocessing(**settings),
        config["features"],
        keep_statistics=config.get("keep_statistics", False),
        source=config["source"],
    )


def _image_tower(architecture: Any, folder: Path) -> Any:
    """The part of a configuration that is about images."""
    if architecture.model_type in TOWERS:
        tower = architecture.vision_config
        if architecture.model_type == "clip":
            tower.projection_dim = architecture.projection_dim
        return tower
    if hasattr(architecture, "vision_config"):
        raise ValueError(
            f"{folder} holds a model of images and texts of type '{architecture.model_type}', whose part for images "
            f"cannot be taken. It can for {' and '.join(TOWERS)}."
        )
    return architecture
