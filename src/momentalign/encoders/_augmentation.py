"""DomainBed's training augmentation, on the device."""

import torch
from torch import Tensor

from momentalign._extras import require

CROP_SCALE = (0.7, 1.0)
JITTER = 0.3
GRAYSCALE = 0.1


class ImageAugmentation:
    """Random resized crop, horizontal flip, colour jitter and grayscale, each image with its own draws.

    Every crop, flip and colour is drawn from torch's default generator of the images' device. Only the order of the
    four colour changes, one for the batch, comes from the host's, which decides what to launch.

    Args:
        size: Height and width of the results.
    """

    def __init__(self, size: int) -> None:
        K = require("kornia.augmentation", "Augmentation of images needs", extra="vision")
        # "resample" crops a whole batch in one kernel; the default loops over the images.
        self._steps = (
            K.RandomResizedCrop((size, size), scale=CROP_SCALE, cropping_mode="resample"),
            K.RandomHorizontalFlip(p=0.5),
            K.ColorJitter(brightness=JITTER, contrast=JITTER, saturation=JITTER, hue=JITTER),
            K.RandomGrayscale(p=GRAYSCALE),
        )
        self._device: torch.device | None = None

    def __call__(self, images: Tensor) -> Tensor:
        """Change images at random.

        Args:
            images: Numbers in [0, 1], shape (n, 3, height, width).

        Returns:
            Numbers in [0, 1], shape (n, 3, size, size).
        """
        if images.device != self._device:
            for step in self._steps:
                step.set_rng_device_and_dtype(images.device, torch.float32)
            self._device = images.device
        for step in self._steps:
            images = step(images)
        return images.clamp(0, 1)
