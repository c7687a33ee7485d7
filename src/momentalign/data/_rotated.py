"""Digits turned by an angle that is the domain."""

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from momentalign._seeds import seed_hash
from momentalign.data._dataset import DomainDataset, Split
from momentalign.data._digits import embedded_digits, mnist_digits
from momentalign.data._root import data_folder
from momentalign.data._splits import split_in_out

ANGLES = {"0": 0.0, "15": 15.0, "30": 30.0, "45": 45.0, "60": 60.0, "75": 75.0}


class RotatedDigits(DomainDataset):
    """RotatedMNIST's recipe on the 1,797 digits of 8×8 pixels that scikit-learn bundles.

    Six domains of 299 or 300 images, ``"0"``, ``"15"``, …, ``"75"`` degrees, each with an ``"in"`` split (80%) and an
    ``"out"`` split (20%).

    Args:
        trial: The trial's seed; another trial deals the images out differently and has another split.
        holdout: Share of each domain in its "out" split.

    Example:
        >>> data = RotatedDigits()
        >>> data.names
        ('0', '15', '30', '45', '60', '75')
        >>> data.split("75", "in")
        Split(240 rows of shape (1, 8, 8))
    """

    def __init__(self, trial: int = 0, *, holdout: float = 0.2) -> None:
        rotated = rotate_domains(*embedded_digits(), seed=seed_hash("data", trial))
        super().__init__("rotated-digits", 10, split_in_out(rotated, trial, fraction=holdout))


class RotatedMNIST(DomainDataset):
    """MNIST turned by 0, 15, …, 75 degrees: six domains of 11,667 images of shape (1, 28, 28) or one less.

    Args:
        trial: The trial's seed; another trial deals the images out differently and has another split.
        root: Data folder, with MNIST's files in its folder "mnist".
        holdout: Share of each domain in its "out" split.
    """

    def __init__(self, trial: int = 0, root: str | Path | None = None, *, holdout: float = 0.2) -> None:
        rotated = rotate_domains(*mnist_digits(data_folder(root) / "mnist"), seed=seed_hash("data", trial))
        super().__init__("rotated-mnist", 10, split_in_out(rotated, trial, fraction=holdout))


def rotate_domains(images: Tensor, labels: Tensor, *, seed: int) -> dict[str, Split]:
    """Build the six domains of RotatedMNIST out of any grey digits.

    The images are shuffled once and dealt out in turn, so that no two domains share one.

    Args:
        images: Grey images, shape (n, height, width).
        labels: Digits 0 to 9, shape (n,).
        seed: Seed of the shuffle.

    Returns:
        All rows of each domain, by name; inputs have shape (m, 1, height, width).
    """
    order = torch.from_numpy(np.random.RandomState(seed).permutation(len(images)))
    domains = {}
    for position, (name, degrees) in enumerate(ANGLES.items()):
        rows = order[position :: len(ANGLES)]
        domains[name] = Split(rotate(images[rows].unsqueeze(1), degrees), labels[rows])
    return domains


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Turn images counter-clockwise about their centre, bilinearly, with 0 where nothing was.

    Computed in float64: in float32 the sampling points are off by some 1e-6 pixels, differently on every machine.

    Args:
        images: Shape (n, channels, height, width).
        degrees: Angle.

    Returns:
        The turned images, of the same shape and type.
    """
    if degrees % 360 == 0:
        return images
    height, width = images.shape[-2:]
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    # Where each pixel comes from, in coordinates from -1 to 1 with y pointing down; the ratios undo their scaling.
    source = torch.tensor([[cos, -sin * height / width, 0], [sin * width / height, cos, 0]], dtype=torch.float64)
    grid = F.affine_grid(source.unsqueeze(0), [1, 1, height, width], align_corners=False)
    grid = grid.to(images.device).expand(len(images), -1, -1, -1)
    turned = F.grid_sample(images.double(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return turned.to(images.dtype)
