"""Digits whose colour predicts the label, in a direction that changes from domain to domain."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from momentalign._seeds import seed_hash
from momentalign.data._dataset import DomainDataset, Split
from momentalign.data._digits import embedded_digits, mnist_digits
from momentalign.data._root import data_folder
from momentalign.data._splits import split_in_out

# How often the colour contradicts the label, by domain: the correlation is 0.9, 0.8 and, reversed, 0.9.
COLOR_FLIPS = {"+90%": 0.1, "+80%": 0.2, "-90%": 0.9}
LABEL_NOISE = 0.25
CLASSES = ("5-9", "0-4")


class ColoredDigits(DomainDataset):
    """ColoredMNIST's recipe on the 1,797 digits of 8×8 pixels that scikit-learn bundles.

    Three domains of 599 images, ``"+90%"``, ``"+80%"`` and ``"-90%"``, each with an ``"in"`` split (80%) and an
    ``"out"`` split (20%). Colours and label noise are drawn from a seed of their own, so that every method of a
    trial sees the same data.

    Args:
        trial: The trial's seed; another trial has other colours, other label noise and another split.
        holdout: Share of each domain in its "out" split.

    Example:
        >>> data = ColoredDigits()
        >>> data.names
        ('+90%', '+80%', '-90%')
        >>> data.split("-90%", "in")
        Split(480 rows of shape (2, 8, 8))
    """

    def __init__(self, trial: int = 0, *, holdout: float = 0.2) -> None:
        colored = color_domains(*embedded_digits(), seed=seed_hash("data", trial))
        super().__init__("colored-digits", 2, split_in_out(colored, trial, fraction=holdout), CLASSES)


class ColoredMNIST(DomainDataset):
    """MNIST with colours that predict the label: three domains of 23,333 images of shape (2, 28, 28) or one more.

    Args:
        trial: The trial's seed; another trial has other colours, other label noise and another split.
        root: Data folder, with MNIST's files in its folder "mnist".
        holdout: Share of each domain in its "out" split.
    """

    def __init__(self, trial: int = 0, root: str | Path | None = None, *, holdout: float = 0.2) -> None:
        colored = color_domains(*mnist_digits(data_folder(root) / "mnist"), seed=seed_hash("data", trial))
        super().__init__("colored-mnist", 2, split_in_out(colored, trial, fraction=holdout), CLASSES)


def color_domains(images: Tensor, labels: Tensor, *, seed: int) -> dict[str, Split]:
    """Build the three domains of ColoredMNIST out of any grey digits.

    The images are shuffled once and dealt out in turn, so that no two domains share one. The target is whether the
    digit is below five, flipped with probability 0.25 (no classifier that ignores colour exceeds 75%). The colour is
    the flipped target, flipped again with the domain's probability 0.1, 0.2 or 0.9; it says which of two channels
    holds the image while the other is zero.

    Args:
        images: Grey images scaled to [0, 1], shape (n, height, width).
        labels: Digits 0 to 9, shape (n,).
        seed: Seed of the shuffle, the label noise and the colours.

    Returns:
        All rows of each domain, by name; inputs have shape (m, 2, height, width), targets are 0 or 1.

    Raises:
        ValueError: If the images are not a stack of grey images, or the labels do not match them.
    """
    if images.ndim != 3:
        raise ValueError(f"'images' should have shape (n, height, width), but has shape {tuple(images.shape)}.")
    if labels.shape != images.shape[:1]:
        raise ValueError(
            f"'labels' should have one entry per image ({len(images)}), but has shape {tuple(labels.shape)}."
        )
    random = np.random.RandomState(seed)
    order = torch.from_numpy(random.permutation(len(images)))
    domains = {}
    for position, (name, color_flip) in enumerate(COLOR_FLIPS.items()):
        rows = order[position :: len(COLOR_FLIPS)]
        targets = (labels[rows] < 5).long() ^ _flips(random, len(rows), LABEL_NOISE)
        colors = targets ^ _flips(random, len(rows), color_flip)
        inputs = torch.zeros(len(rows), 2, *images.shape[1:], dtype=images.dtype)
        inputs[torch.arange(len(rows)), colors] = images[rows]
        domains[name] = Split(inputs, targets)
    return domains


def _flips(random: np.random.RandomState, n: int, probability: float) -> Tensor:
    return torch.from_numpy(random.random_sample(n) < probability).long()
