"""Digits as domain data sets: coloured or rotated, from scikit-learn's bundled digits or from MNIST's files."""

import gzip
import math
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from momentalign._seeds import seed_hash
from momentalign._validation import check_count
from momentalign.data._dataset import DomainDataset, Split, split_in_out
from momentalign.data._sources import data_folder

_MNIST_FILES = (
    ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
)
"""Images and labels of the training and of the test part, in the order in which they are concatenated."""
_COLOR_FLIPS = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}
"""How often the colour contradicts the label, by domain: the correlation is 0.9, 0.8 and, reversed, 0.9."""
_LABEL_NOISE = 0.25
_COLOR_CLASSES = ("5-9", "0-4")
_ANGLES = {"0": 0.0, "15": 15.0, "30": 30.0, "45": 45.0, "60": 60.0, "75": 75.0}


class ColoredDigits(DomainDataset):
    """ColoredMNIST's recipe on the 1,797 digits of 8×8 pixels that scikit-learn bundles.

    Three domains of 599 digits, ``"+90%"``, ``"+80%"`` and ``"-90%"``, each with an ``"in"`` split (80%) and an
    ``"out"`` split (20%). Every digit is drawn several times, each time with its own label noise and colour: with one
    draw a network memorises the noise within a few hundred steps. All draws of a digit are in one split of one domain.
    Every method of a trial sees the same data.

    Args:
        trial: The trial's seed; another trial has other colours, other label noise and another split.
        draws: How often each digit is drawn.
        holdout: Share of each domain in its "out" split.

    Example:
        >>> data = ColoredDigits()
        >>> data.names
        ('+90%', '+80%', '-90%')
        >>> data.split("-90%", "in")
        Split(9600 rows of shape (2, 8, 8))
    """

    def __init__(self, trial: int = 0, *, draws: int = 20, holdout: float = 0.2) -> None:
        colored = color_domains(*embedded_digits(), seed=seed_hash("data", trial), draws=draws)
        divided = split_in_out(colored, trial, fraction=holdout, copies=draws)
        super().__init__("colored-digits", 2, divided, _COLOR_CLASSES, training_recipe="digits")


class ColoredMNIST(DomainDataset):
    """MNIST with colours that predict the label: three domains of 23,333 images of shape (2, 28, 28) or one more.

    Arguments are those of :class:`RotatedDigits`; MNIST's files are in the folder "mnist" of the data folder `root`.
    """

    def __init__(self, trial: int = 0, root: str | Path | None = None, *, holdout: float = 0.2) -> None:
        colored = color_domains(*mnist_digits(data_folder(root) / "mnist"), seed=seed_hash("data", trial))
        super().__init__("colored-mnist", 2, split_in_out(colored, trial, fraction=holdout), _COLOR_CLASSES)


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
    """MNIST rotated by 0, 15, …, 75 degrees: six domains of 11,667 images of shape (1, 28, 28) or one less.

    Arguments are those of :class:`RotatedDigits`; MNIST's files are in the folder "mnist" of the data folder `root`.
    """

    def __init__(self, trial: int = 0, root: str | Path | None = None, *, holdout: float = 0.2) -> None:
        rotated = rotate_domains(*mnist_digits(data_folder(root) / "mnist"), seed=seed_hash("data", trial))
        super().__init__("rotated-mnist", 10, split_in_out(rotated, trial, fraction=holdout))


def color_domains(images: Tensor, labels: Tensor, *, seed: int, draws: int = 1) -> dict[str, Split]:
    """Build the three domains of ColoredMNIST out of any grey digits.

    The images are shuffled once and dealt out in turn, so that no two domains share one. The target is whether the
    digit is below five, flipped with probability 0.25 (no classifier that ignores colour exceeds 75%). The colour is
    the flipped target, flipped again with the domain's probability 0.1, 0.2 or 0.9; it is the channel
    that holds the image, while the other channel is zero.

    Args:
        images: Grey images scaled to [0, 1], shape (n, height, width).
        labels: Digits 0 to 9, shape (n,).
        seed: Seed of the shuffle, the label noise and the colours.
        draws: How often each image is drawn, in successive rows, with its own noise and colour.

    Returns:
        All rows of each domain, by name; inputs have shape (m, 2, height, width), targets are 0 or 1.
    """
    check_count("draws", draws, 1)
    if images.ndim != 3:
        raise ValueError(f"'images' should have shape (n, height, width), but has shape {tuple(images.shape)}.")
    if labels.shape != images.shape[:1]:
        raise ValueError(
            f"'labels' should have one entry per image ({len(images)}), but has shape {tuple(labels.shape)}."
        )
    random = np.random.RandomState(seed)
    order = torch.from_numpy(random.permutation(len(images)))
    domains = {}
    for index, (name, color_flip) in enumerate(_COLOR_FLIPS.items()):
        rows = order[index :: len(_COLOR_FLIPS)].repeat_interleave(draws)
        targets = (labels[rows] < 5).long() ^ _flips(random, len(rows), _LABEL_NOISE)
        colors = targets ^ _flips(random, len(rows), color_flip)
        inputs = torch.zeros(len(rows), 2, *images.shape[1:], dtype=images.dtype)
        inputs[torch.arange(len(rows)), colors] = images[rows]
        domains[name] = Split(inputs, targets)
    return domains


def _flips(random: np.random.RandomState, n: int, probability: float) -> Tensor:
    return torch.from_numpy(random.random_sample(n) < probability).long()


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
    for index, (name, degrees) in enumerate(_ANGLES.items()):
        rows = order[index :: len(_ANGLES)]
        domains[name] = Split(rotate(images[rows].unsqueeze(1), degrees), labels[rows])
    return domains


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Rotate images (n, channels, height, width) counter-clockwise about their centre, bilinearly, padded with 0.

    Computed in float64: in float32 the sampling points are off by some 1e-6 pixels, differently on every machine.
    """
    if degrees % 360 == 0:
        return images
    height, width = images.shape[-2:]
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    # Where each pixel comes from, in coordinates from -1 to 1 with y pointing down; the ratios undo their scaling.
    source = torch.tensor([[cos, -sin * height / width, 0], [sin * width / height, cos, 0]], dtype=torch.float64)
    grid = F.affine_grid(source.unsqueeze(0), [1, 1, height, width], align_corners=False)
    grid = grid.to(images.device).expand(len(images), -1, -1, -1)
    rotated = F.grid_sample(images.double(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return rotated.to(images.dtype)


def embedded_digits() -> tuple[Tensor, Tensor]:
    """The 1,797 digits of 8×8 pixels that scikit-learn bundles: images in [0, 1] and labels."""
    spec = find_spec("sklearn")  # importing it would take as long as a short run
    assert spec is not None
    assert spec.origin is not None
    rows = np.loadtxt(Path(spec.origin).parent / "datasets/data/digits.csv.gz", delimiter=",", dtype=np.float32)
    images, labels = torch.from_numpy(rows).split([64, 1], 1)
    return images.reshape(-1, 8, 8) / 16, labels[:, 0].long()


def mnist_digits(folder: Path) -> tuple[Tensor, Tensor]:
    """The 70,000 digits of MNIST, training part first: images (n, 28, 28) in [0, 1] and labels."""
    parts = [(read_idx(folder / images), read_idx(folder / labels)) for images, labels in _MNIST_FILES]
    images, labels = (torch.from_numpy(np.concatenate(arrays)) for arrays in zip(*parts, strict=True))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{folder} should contain images (n, height, width) and as many labels, but they have shapes "
            f"{tuple(images.shape)} and {tuple(labels.shape)}. Run 'momentalign data verify mnist'."
        )
    return images.float() / 255, labels.long()


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array of bytes in MNIST's idx format, gzipped or, if that file does not exist, without ".gz"."""
    if not path.exists() and path.with_suffix("").exists():
        path = path.with_suffix("")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Run 'momentalign data fetch mnist', or put it there.")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        # Two zero bytes, the type (8 is unsigned bytes), the number of dimensions, then the dimensions.
        header = 4 + 4 * content[3]
        return np.frombuffer(content, np.uint8, offset=header).reshape(np.frombuffer(content[4:header], ">u4"))
    except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
        raise ValueError(f"{path} should be a gzipped idx file of bytes, but cannot be read: {error}.") from None
