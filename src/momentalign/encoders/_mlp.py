"""A few fully connected layers, for tables."""

from itertools import pairwise
from typing import Any, cast

from torch import Tensor, nn

from momentalign.encoders._base import Encoder
from momentalign.encoders._preprocessing import Preprocessing, TensorPreprocessing
from momentalign.encoders._table import TablePreprocessing


class MLP(Encoder):
    """Linear layers, each followed by ReLU.

    Args:
        in_features: Numbers a row.
        width: Units of each layer, and width of the features.
        depth: Number of layers; at least one.
        preprocessing: Makes such rows; None where they are tensors already.

    Example:
        >>> import torch
        >>> MLP(13, width=32)(torch.zeros(5, 13)).shape
        torch.Size([5, 32])
    """

    def __init__(
        self, in_features: int, width: int = 256, depth: int = 2, preprocessing: TablePreprocessing | None = None
    ) -> None:
        for name, value in (("in_features", in_features), ("width", width), ("depth", depth)):
            if value < 1:
                raise ValueError(f"'{name}' should be at least 1, but is {value}.")
        super().__init__()
        self.in_features, self.width, self.depth = in_features, width, depth
        self.num_features = width
        self.preprocessing: Preprocessing = preprocessing or TensorPreprocessing((in_features,))
        self.source = "mlp"
        sizes = pairwise([in_features, *[width] * depth])
        self.layers = nn.Sequential(*(layer for a, b in sizes for layer in (nn.Linear(a, b), nn.ReLU())))

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the features of a batch.

        Args:
            inputs: Rows of numbers, shape (n, in_features).

        Returns:
            Features, shape (n, width).
        """
        return cast(Tensor, self.layers(inputs))

    def config(self) -> dict[str, Any]:
        """Describe the architecture, in values that JSON can hold."""
        learned = {"preprocessing": self.preprocessing.config()} if self._of_a_table else {}
        return {"kind": "mlp", "in_features": self.in_features, "width": self.width, "depth": self.depth, **learned}

    @property
    def _of_a_table(self) -> bool:
        return isinstance(self.preprocessing, TablePreprocessing)
