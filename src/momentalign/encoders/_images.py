"""Images: decoded and resized on the host, normalised and augmented on the device."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

from momentalign.data import ImageFiles, Items
from momentalign.encoders._augmentation import ImageAugmentation
from momentalign.encoders._preprocessing import Preprocessing

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class ImagePreprocessing(Preprocessing):
    """Images of one size, three channels, normalised by a mean and a standard deviation a channel.

    Both sides are resized, without a crop: the evaluation transform of DomainBed. The training augmentation is its
    as well, :class:`ImageAugmentation`.

    Args:
        size: Height and width.
        mean: Of each channel, for pixels in [0, 1].
        std: Of each channel, for pixels in [0, 1].

    Example:
        >>> preprocessing = ImagePreprocessing(2, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
        >>> preprocessing.to_inputs(torch.full((1, 3, 2, 2), 255, dtype=torch.uint8)).flatten()[:2]
        tensor([1., 1.])
    """

    def __init__(
        self, size: int = 224, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
    ) -> None:
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
            raise ValueError(
                f"'mean' and 'std' should be three numbers each, 'std' positive, but are {mean} and {std}."
            )
        if size < 1:
            raise ValueError(f"'size' should be at least 1, but is {size}.")
        self.size, self.mean, self.std = size, tuple(mean), tuple(std)
        self._augmentation: ImageAugmentation | None = None
        # Copied to a device once: a copy at every step would make the host wait, and could not be captured.
        self._constants: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def open(self, inputs: Tensor | Items) -> Tensor | Dataset[Tensor]:
        """Make raw rows: files are decoded when they are asked for, tensors stay as they are.

        Args:
            inputs: Image files, or images as a tensor: bytes (n, 3, height, width), or floating-point numbers already
                normalised (n, 3, size, size).

        Returns:
            For files, a data set of bytes (3, size, size); otherwise the same tensor.

        Raises:
            ValueError: No images, or of another shape.
        """
        if isinstance(inputs, ImageFiles):
            return DecodedImages(inputs, self.size)
        if isinstance(inputs, Items):
            raise ValueError(f"The encoder takes images, but these rows are {inputs.kind}.")
        is_image = inputs.ndim == 4 and inputs.shape[1] == 3
        is_normalised = inputs.is_floating_point() and inputs.shape[2:] == (self.size, self.size)
        if is_image and (inputs.dtype == torch.uint8 or is_normalised):
            return inputs
        remedy = f" Resize them to {self.size}×{self.size}, or give bytes (torch.uint8), which are resized here."
        raise ValueError(
            f"The encoder takes image files, bytes of shape (3, height, width) or normalised images of shape "
            f"(3, {self.size}, {self.size}), but these rows are {inputs.dtype} of shape {tuple(inputs.shape[1:])}."
            + (remedy if is_image and inputs.is_floating_point() else "")
        )

    def to_inputs(self, raw: Tensor) -> Tensor:
        """Resize where needed, and normalise.

        Args:
            raw: Bytes, shape (n, 3, height, width). Floating-point numbers are taken as normalised already.

        Returns:
            Numbers, shape (n, 3, size, size).
        """
        return raw.float() if raw.is_floating_point() else self._normalise(self._resize(raw.float()), pixel=255.0)

    def augment(self, raw: Tensor) -> Tensor:
        """Crop, flip and recolour at random, then normalise; draws from torch's generators of device and host.

        Args:
            raw: Bytes, shape (n, 3, height, width). Floating-point numbers are taken as normalised already, and stay
                as they are: brightness and saturation are defined for pixels, and theirs are not known.

        Returns:
            Numbers, shape (n, 3, size, size).
        """
        if raw.is_floating_point():
            return self.to_inputs(raw)
        if self._augmentation is None:
            self._augmentation = ImageAugmentation(self.size)
        with torch.autocast(raw.device.type, enabled=False):
            return self._normalise(self._augmentation(raw.float() / 255), pixel=1.0)

    def config(self) -> dict[str, Any]:
        """Describe the preprocessing, in values that JSON can hold."""
        return {"kind": "image", "size": self.size, "mean": list(self.mean), "std": list(self.std)}

    def _resize(self, images: Tensor) -> Tensor:
        size = (self.size, self.size)
        if images.shape[2:] == size:
            return images
        return F.interpolate(images, size, mode="bilinear", antialias=True)

    def _normalise(self, images: Tensor, pixel: float) -> Tensor:
        if images.device not in self._constants:
            mean, std = (torch.tensor(v, device=images.device).view(3, 1, 1) for v in (self.mean, self.std))
            self._constants[images.device] = mean, std
        mean, std = self._constants[images.device]
        return (images / pixel - mean) / std


class DecodedImages(Dataset[Tensor]):
    """Image files as tensors, for a loader.

    Args:
        files: The files.
        size: Height and width.
    """

    def __init__(self, files: ImageFiles, size: int) -> None:
        self.files, self.size = files, size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        """Decode one file: bytes, shape (3, size, size)."""
        return self.files.decode(index, self.size)
