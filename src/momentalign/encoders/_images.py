"""Image preprocessing: decoded and resized on the host, normalised and augmented on the device."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

from momentalign._extras import require
from momentalign._validation import check_count
from momentalign.data import ImageFiles, Items
from momentalign.encoders._base import Preprocessing, TensorPreprocessing
from momentalign.encoders._huggingface import read_config

_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_DEFAULT_SIZE = 224

_CROP_SCALE = (0.7, 1.0)
_JITTER = 0.3
_GRAYSCALE = 0.1


AUGMENTATIONS = ("domainbed", "no-flip", "none")
"""Training augmentations of images: DomainBed's, the same without horizontal flips, none."""


class ImageAugmentation:
    """DomainBed's training augmentation: random resized crop, horizontal flip, colour jitter and grayscale.

    Without `flip` images keep their orientation, which classes such as digits and letters depend on.

    Every image has its own draws, from torch's default generator of the images' device. Only the order of the four
    colour changes, one per batch, comes from the host's generator, because it decides what to launch.
    """

    def __init__(self, size: int, *, flip: bool = True) -> None:
        K = require(
            "kornia.augmentation", "Augmentation of images needs", extra="vision", alternative=", or --augment none"
        )
        # "resample" crops a whole batch in one kernel; the default loops over the images.
        self._steps = (
            K.RandomResizedCrop((size, size), scale=_CROP_SCALE, cropping_mode="resample"),
            *([K.RandomHorizontalFlip(p=0.5)] if flip else []),
            K.ColorJitter(brightness=_JITTER, contrast=_JITTER, saturation=_JITTER, hue=_JITTER),
            K.RandomGrayscale(p=_GRAYSCALE),
        )
        self._device: torch.device | None = None

    def __call__(self, images: Tensor) -> Tensor:
        """Augment images in [0, 1], shape (n, 3, height, width), to shape (n, 3, size, size)."""
        if images.device != self._device:
            for step in self._steps:
                step.set_rng_device_and_dtype(images.device, torch.float32)
            self._device = images.device
        for step in self._steps:
            images = step(images)
        return images.clamp(0, 1)


class ImagePreprocessing(Preprocessing):
    """Three-channel images of one size, normalised by a mean and a standard deviation per channel.

    Both sides are resized without a crop, the evaluation transform of DomainBed; :meth:`augment` is the training
    augmentation.

    Args:
        size: Height and width.
        mean: Mean of each channel, for pixels in [0, 1].
        std: Standard deviation of each channel, for pixels in [0, 1].

    Attributes:
        augmentation: `"domainbed"`, `"no-flip"` or `"none"`.
        capturable: False, since the host draws the order of the colour changes.

    Example:
        >>> preprocessing = ImagePreprocessing(2, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
        >>> preprocessing.to_inputs(torch.full((1, 3, 2, 2), 255, dtype=torch.uint8)).flatten()[:2]
        tensor([1., 1.])
    """

    kind = "image"
    capturable = False

    def __init__(
        self, size: int = _DEFAULT_SIZE, mean: Sequence[float] = _IMAGENET_MEAN, std: Sequence[float] = _IMAGENET_STD
    ) -> None:
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
            raise ValueError(
                f"'mean' and 'std' should be three numbers each, 'std' positive, but are {mean} and {std}."
            )
        self.size, self.mean, self.std = check_count("size", size, 1), tuple(mean), tuple(std)
        self.shape, self.augmentation = (3, size, size), "domainbed"
        self._augment: ImageAugmentation | None = None
        # Copied to each device once: a copy at every step would synchronise, and could not be captured.
        self._constants: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def coerce(self, inputs: Sequence[str | Path]) -> Items:
        return _image_files(inputs)

    def open(self, inputs: Tensor | Items) -> Tensor | Dataset[Tensor]:
        """Return a lazy data set of bytes (3, size, size) for image files, and tensors unchanged.

        Tensors are bytes (n, 3, height, width), or floating-point numbers already normalised (n, 3, size, size).
        """
        if isinstance(inputs, ImageFiles):
            return DecodedImages(inputs, self.size)
        size = (self.size, self.size)
        if isinstance(inputs, Items):
            found = inputs.kind
        else:
            is_normalised = inputs.is_floating_point() and inputs.shape[2:] == size
            if inputs.ndim == 4 and inputs.shape[1] == 3 and (inputs.dtype == torch.uint8 or is_normalised):
                return inputs
            found = f"{inputs.dtype} of shape {tuple(inputs.shape[1:])}"
        raise ValueError(
            "The encoder takes image files, bytes (torch.uint8) of shape (3, height, width), which are resized, or "
            f"normalised images of shape {(3, *size)}, but these rows are {found}."
        )

    def to_inputs(self, raw: Tensor) -> Tensor:
        """Resize and normalise bytes; floating-point numbers are taken as normalised already."""
        if raw.is_floating_point():
            return raw.float()
        images, size = raw.float(), (self.size, self.size)
        if images.shape[2:] != size:
            images = F.interpolate(images, size, mode="bilinear", antialias=True)
        return self._normalise(images, pixel=255.0)

    def augment(self, raw: Tensor) -> Tensor:
        """Augment and normalise bytes, with draws from torch's generators of device and host.

        Floating-point numbers are unchanged: brightness and saturation are defined for pixels, not for normalised
        images.
        """
        if raw.is_floating_point() or self.augmentation == "none":
            return self.to_inputs(raw)
        if self._augment is None:
            self._augment = ImageAugmentation(self.size, flip=self.augmentation != "no-flip")
        with torch.autocast(raw.device.type, enabled=False):
            return self._normalise(self._augment(raw.float() / 255), pixel=1.0)

    def example(self, number: int) -> Tensor:
        return (255 * super().example(number)).byte()

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size, "mean": list(self.mean), "std": list(self.std)}

    def _normalise(self, images: Tensor, pixel: float) -> Tensor:
        if images.device not in self._constants:
            mean, std = (torch.tensor(v, device=images.device).view(3, 1, 1) for v in (self.mean, self.std))
            self._constants[images.device] = mean, std
        mean, std = self._constants[images.device]
        return (images / pixel - mean) / std


class PixelPreprocessing(TensorPreprocessing):
    """Small colour images for a network that is trained from scratch: resized, scaled to [0, 1], never augmented.

    Args:
        size: Height and width.

    Example:
        >>> PixelPreprocessing(28).shape
        (3, 28, 28)
    """

    kind = "pixels"
    is_small = True

    def __init__(self, size: int) -> None:
        self.size = check_count("size", size, 1)
        super().__init__((3, size, size))

    def coerce(self, inputs: Sequence[str | Path]) -> Items:
        return _image_files(inputs)

    def open(self, inputs: Tensor | Items) -> Tensor | Dataset[Tensor]:
        """Return a lazy data set of bytes (3, size, size) for image files, and tensors of that shape unchanged."""
        return DecodedImages(inputs, self.size) if isinstance(inputs, ImageFiles) else super().open(inputs)

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size}


def _image_files(paths: Sequence[str | Path]) -> ImageFiles:
    absolute = [Path(path).absolute() for path in paths]
    return ImageFiles(absolute, Path(absolute[0].anchor))


class DecodedImages(Dataset[Tensor]):
    """Image files, decoded to bytes (3, size, size) on access, or all at once."""

    def __init__(self, files: ImageFiles, size: int) -> None:
        self.files, self.size = files, size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        return self.files.decode(index, self.size)

    @property
    def nbytes(self) -> int:
        """Memory that all images take."""
        return len(self) * 3 * self.size**2

    def load(self) -> Tensor:
        """Decode all images, shape (n, 3, size, size)."""
        return self.files.decode_all(self.size)


def read_image_settings(
    folder: Path, architecture: Any, size: int | None = None
) -> tuple[ImagePreprocessing, tuple[str, ...]]:
    """Read size, mean and standard deviation from `preprocessor_config.json`, with notes on what was assumed.

    A crop in the file gives the size to resize to, so that no part of an image is cut off, as in DomainBed. Without the
    file the size is the architecture's own, else 224, and the normalisation ImageNet's. `size` overrides the size.
    """
    settings = _read_settings(folder, architecture)
    if settings is None:
        own = getattr(architecture, "image_size", None)
        assumed = size or (own if isinstance(own, int) else _DEFAULT_SIZE)
        note = (
            f"The encoder has no preprocessor_config.json: images are resized to {assumed} × {assumed} and normalised "
            "by the mean and standard deviation of ImageNet."
        )
        return ImagePreprocessing(assumed), (note,)
    mean, std = _normalisation(settings)
    return ImagePreprocessing(size or _image_size(settings, architecture, folder), mean, std), ()


def _read_settings(folder: Path, architecture: Any) -> dict[str, Any] | None:
    if timm := getattr(architecture, "pretrained_cfg", None):
        return {"size": timm["input_size"][-1], "image_mean": timm["mean"], "image_std": timm["std"]}
    if (folder / "preprocessor_config.json").is_file():
        return read_config(folder / "preprocessor_config.json")
    if (folder / "processor_config.json").is_file():  # newer models of images and texts keep both parts in one file
        part = read_config(folder / "processor_config.json").get("image_processor")
        return part if isinstance(part, dict) else None
    return None


def _image_size(settings: dict[str, Any], architecture: Any, folder: Path) -> int:
    """Side of the images: the crop's if there is one, else the resized image's, else the architecture's."""
    cropped = settings.get("do_center_crop") and settings.get("crop_size") is not None
    stated = settings.get("crop_size") if cropped else settings.get("size")
    if stated is None or not settings.get("do_resize", True):
        stated = getattr(architecture, "image_size", None) or _DEFAULT_SIZE
    if isinstance(stated, dict):
        sides = [stated["shortest_edge"]] if "shortest_edge" in stated else list(stated.values())
    else:
        sides = stated if isinstance(stated, list) else [stated]
    if not sides or any(not isinstance(side, int) or side != sides[0] for side in sides):
        raise ValueError(
            f"The images of {folder} should be square, but its preprocessor_config.json has the size {stated}. Give "
            f"one with '?size=224' after the name."
        )
    return int(sides[0])


def _normalisation(settings: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation for pixels in [0, 1], whatever range the model uses."""
    # The model computes (pixel · factor − offset − mean) / std for pixels 0…255.
    factor = float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0
    offset = 1.0 if settings.get("rescale_offset") else 0.0
    if settings.get("do_normalize", True):
        mean, std = settings.get("image_mean", _IMAGENET_MEAN), settings.get("image_std", _IMAGENET_STD)
        if settings.get("include_top"):  # EfficientNet divides by the standard deviation twice
            std = [value * value for value in std]
    else:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    top = 255 * factor
    return tuple((m + offset) / top for m in mean), tuple(s / top for s in std)
