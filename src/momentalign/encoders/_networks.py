"""The small networks of this package, trained from scratch: DomainBed's MNIST_CNN, an MLP, and plain pixels."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from momentalign._validation import check_count
from momentalign.encoders._base import Encoder, Preprocessing, TensorPreprocessing
from momentalign.encoders._fused_norm import can_fuse, relu_group_norm
from momentalign.encoders._images import PixelPreprocessing
from momentalign.encoders._table import TablePreprocessing

_SMALL = 16
"""Image size below which MNIST_CNN has a quarter of its width."""


class SmallNetwork(Encoder):
    """A network that is trained from scratch, for rows of whatever shape a data set has.

    Attributes:
        sides: Least and largest side that image files have by default, in between they keep theirs; None if it takes no
            image files.
        is_random: Whether its weights are random before training.
    """

    capturable = True
    sides: ClassVar[tuple[int, int] | None] = None
    is_random: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def for_rows(cls, shape: tuple[int, ...], size: int | None) -> Self:
        """Build one for rows of a shape; `size` is the side that image files are resized to, if they are files."""


class MNIST_CNN(SmallNetwork):  # noqa: N801  (the name it has in the DomainBed protocol)
    """Four 3×3 convolutions, each followed by ReLU and then GroupNorm, and a global average pool.

    The second convolution has stride 2 and doubles the channels. Images are at least 8×8. The norm after the ReLU is
    unusual and deliberate: it is what the protocol trains.

    Args:
        in_channels: Channels of the images: 2 for coloured digits, 1 for grey ones.
        width: Channels of the first convolution, a multiple of 8: 64 for MNIST, 16 for 8×8 digits. The features
            have twice as many.
        size: Side that image files are resized to; None for images that are tensors already.

    Example:
        >>> import torch
        >>> encoder = MNIST_CNN(in_channels=2, width=16)
        >>> encoder(torch.zeros(5, 2, 8, 8)).shape, encoder.num_features
        (torch.Size([5, 32]), 32)
    """

    kind = "mnist-cnn"
    sides = (8, 64)

    def __init__(self, in_channels: int, width: int = 64, size: int | None = None) -> None:
        if width <= 0 or width % 8:
            raise ValueError(f"'width' should be a positive multiple of 8, for GroupNorm's 8 groups, but is {width}.")
        super().__init__()
        self.in_channels, self.width, self.size = in_channels, width, size
        self.num_features = 2 * width
        self.preprocessing = image_rows((in_channels, None, None), size)
        self.source = self.kind
        self.layers = nn.Sequential(
            *_block(in_channels, width),
            *_block(width, self.num_features, stride=2),
            *_block(self.num_features, self.num_features),
            *_block(self.num_features, self.num_features),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    @classmethod
    def for_rows(cls, shape: tuple[int, ...], size: int | None) -> Self:
        return cls(shape[0], 16 if max(shape[1:]) < _SMALL else 64, size)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the features of images, shape (n, in_channels, height, width), in either memory format."""
        if can_fuse(inputs, self.width // 8):
            return self._fused(inputs)
        return cast(Tensor, self.layers(inputs))

    def _fused(self, images: Tensor) -> Tensor:
        """The same with bias, ReLU and norm fused; the features are float32 under autocast too."""
        images = images.contiguous(memory_format=torch.channels_last)
        *layers, _, _ = self.layers
        for convolution, norm in zip(layers[::3], layers[2::3], strict=True):
            assert isinstance(convolution, nn.Conv2d)
            assert isinstance(norm, nn.GroupNorm)
            assert convolution.bias is not None
            images = F.conv2d(images, convolution.weight, None, convolution.stride, convolution.padding)
            images = relu_group_norm(
                images, convolution.bias, norm.weight, norm.bias, norm.num_groups, norm.eps, pool=norm is layers[-1]
            )
        return images

    def config(self) -> dict[str, Any]:
        config = {"kind": self.kind, "in_channels": self.in_channels, "width": self.width}
        return config if self.size is None else {**config, "size": self.size}


class Pixels(SmallNetwork):
    """No network: the features of an image are its pixels, scaled to [0, 1].

    Args:
        shape: Channels, height and width.
        files: Whether the images are files, which are resized to that shape.

    Example:
        >>> import torch
        >>> Pixels((2, 8, 8))(torch.zeros(5, 2, 8, 8)).shape
        torch.Size([5, 128])
    """

    kind = "pixels"
    sides = (1, 16)
    is_random = False

    def __init__(self, shape: Sequence[int], files: bool = False) -> None:
        super().__init__()
        self.shape, self.files = tuple(shape), files
        self.num_features = math.prod(self.shape)
        self.preprocessing = image_rows(self.shape, self.shape[-1] if files else None)
        self.source = self.kind

    @classmethod
    def for_rows(cls, shape: tuple[int, ...], size: int | None) -> Self:
        return cls(shape, files=size is not None)

    def forward(self, inputs: Tensor) -> Tensor:
        """Flatten images, shape (n, channels, height, width)."""
        return inputs.flatten(1)

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "shape": list(self.shape), "files": self.files}


def image_rows(shape: Sequence[int | None], size: int | None) -> TensorPreprocessing:
    """Preprocessing of image files of a size, or of images that are tensors of a shape."""
    return TensorPreprocessing(shape) if size is None else PixelPreprocessing(size)


class MLP(SmallNetwork):
    """Linear layers, each followed by ReLU.

    Args:
        in_features: Numbers per row, or the shape of images (channels, height, width), whose pixels are its numbers.
        width: Units of each layer, and width of the features.
        depth: Number of layers, at least 1.
        preprocessing: Converts rows of a table; None for rows that are tensors already.

    Example:
        >>> import torch
        >>> MLP(13, width=32)(torch.zeros(5, 13)).shape
        torch.Size([5, 32])
    """

    kind = "mlp"

    def __init__(
        self,
        in_features: int | Sequence[int],
        width: int = 256,
        depth: int = 2,
        preprocessing: TablePreprocessing | None = None,
    ) -> None:
        shape = tuple(in_features) if isinstance(in_features, Sequence) else (in_features,)
        for name, value in (*(("in_features", side) for side in shape), ("width", width), ("depth", depth)):
            check_count(name, value, 1)
        super().__init__()
        self.in_features, self.width, self.depth = in_features, width, depth
        self.num_features = width
        self.preprocessing: Preprocessing = preprocessing or TensorPreprocessing(shape)
        self.source = self.kind
        sizes = pairwise([math.prod(shape), *[width] * depth])
        self.layers = nn.Sequential(*(layer for a, b in sizes for layer in (nn.Linear(a, b), nn.ReLU())))

    @classmethod
    def for_rows(cls, shape: tuple[int, ...], size: int | None) -> Self:
        return cls(shape[0]) if len(shape) == 1 else cls(shape, width=128)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the features of rows of numbers, shape (n, in_features), or of images."""
        return cast(Tensor, self.layers(inputs.flatten(1)))

    def config(self) -> dict[str, Any]:
        in_features = self.in_features if isinstance(self.in_features, int) else list(self.in_features)
        config: dict[str, Any] = {
            "kind": self.kind,
            "in_features": in_features,
            "width": self.width,
            "depth": self.depth,
        }
        own = self.preprocessing.config()
        return config if own["kind"] == TensorPreprocessing.kind else {**config, "preprocessing": own}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the same encoder with random weights."""
        table = config.get("preprocessing")
        preprocessing = None if table is None else TablePreprocessing.from_config(table)
        return cls(config["in_features"], config["width"], config["depth"], preprocessing)


def _block(in_channels: int, out_channels: int, stride: int = 1) -> tuple[nn.Module, ...]:
    return (
        nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1),
        nn.ReLU(),
        nn.GroupNorm(8, out_channels),
    )
