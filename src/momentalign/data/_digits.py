"""Grey digits, embedded or from MNIST's files, that the recipes of `_colored` and `_rotated` make domains of."""

import gzip
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Images and labels of the training and of the test part, in the order in which they are concatenated.
MNIST_FILES = (
    ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
)


class Digits(NamedTuple):
    """Grey images in [0, 1], shape (n, height, width), and their digits, shape (n,)."""

    images: Tensor
    labels: Tensor


def embedded_digits() -> Digits:
    """The 1,797 digits of 8×8 pixels that scikit-learn bundles."""
    from sklearn.datasets import load_digits  # most of what importing this package would otherwise cost

    digits = load_digits()
    return Digits(torch.from_numpy(digits.images).float() / 16, torch.from_numpy(digits.target))


def mnist_digits(folder: Path) -> Digits:
    """The 70,000 digits of 28×28 pixels of MNIST, training part first.

    Args:
        folder: Holds the four canonical files, gzipped or not.

    Returns:
        The digits.
    """
    parts = [(read_idx(folder / images), read_idx(folder / labels)) for images, labels in MNIST_FILES]
    images, labels = (torch.from_numpy(np.concatenate(arrays)) for arrays in zip(*parts, strict=True))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{folder} should hold images (n, height, width) and as many labels, but they have shapes "
            f"{tuple(images.shape)} and {tuple(labels.shape)}. Run 'momentalign data verify mnist'."
        )
    return Digits(images.float() / 255, labels.long())


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array of bytes in MNIST's idx format: a big-endian header, then the bytes.

    Args:
        path: A gzipped file, or where that does not exist the one without ".gz".

    Returns:
        The array, of the shape in the header.

    Raises:
        FileNotFoundError: Neither file exists.
        ValueError: The file is something else.
    """
    if not path.exists() and path.with_suffix("").exists():
        path = path.with_suffix("")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Run 'momentalign data fetch mnist', or put it there.")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} should be a gzipped idx file, but cannot be read: {error}.") from None
    # Two zero bytes, the type (8 is unsigned bytes), the number of dimensions, then the dimensions.
    dimensions = content[3] if len(content) > 3 and content[:3] == b"\x00\x00\x08" else 0
    header = 4 + 4 * dimensions
    shape = np.frombuffer(content[4:header], ">u4").astype(int) if len(content) >= header else np.zeros(0, int)
    if dimensions == 0 or len(content) != header + int(shape.prod()):
        raise ValueError(f"{path} should be an idx file of bytes, but its header and its length do not fit.")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
