"""Base classes of encoders and of their preprocessing."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from momentalign.data import Items, TableRows


class Preprocessing(ABC):
    """Inputs of a data set to raw tensors on the host; raw tensors to an encoder's inputs on the device.

    Attributes:
        capturable: Whether a CUDA graph can hold :meth:`augment`: it launches the same operations every time.
    """

    capturable: bool = True

    @abstractmethod
    def open(self, inputs: Tensor | Items) -> Tensor | Dataset[Tensor]:
        """Convert a split's inputs to raw rows: a tensor of n rows, or a data set that reads row by row.

        ValueError if the encoder does not take such inputs.
        """

    @abstractmethod
    def to_inputs(self, raw: Tensor) -> Tensor:
        """Convert raw rows, shape (n, ...), to the encoder's inputs for evaluation, on the rows' device."""

    def trim(self, raw: Tensor) -> Tensor:
        """Drop what is padding in every row of a batch, which leaves the features the same."""
        return raw

    def augment(self, raw: Tensor) -> Tensor:
        """Convert raw rows, shape (n, ...), to the encoder's inputs for training, with random augmentation if any."""
        return self.to_inputs(raw)

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Describe the preprocessing, in values that JSON can hold."""


class TensorPreprocessing(Preprocessing):
    """Rows that are tensors already: numbers are unchanged, bytes are scaled to [0, 1].

    Args:
        shape: Expected shape of one row; None for a dimension of any length.

    Example:
        >>> preprocessing = TensorPreprocessing((2, None, None))
        >>> preprocessing.to_inputs(torch.tensor([0, 255], dtype=torch.uint8))
        tensor([0., 1.])
        >>> preprocessing.open(torch.zeros(5, 3, 8, 8))
        Traceback (most recent call last):
        ValueError: The encoder takes rows of shape (2, any, any), but these have shape (3, 8, 8).
    """

    def __init__(self, shape: Sequence[int | None]) -> None:
        self.shape = tuple(shape)

    def open(self, inputs: Tensor | Items) -> Tensor | Dataset[Tensor]:
        """Check the shape of the rows and return them unchanged."""
        if isinstance(inputs, Items):
            other = "mlp" if isinstance(inputs, TableRows) else "hf:NAME or a folder in Hugging Face format"
            raise ValueError(
                f"The encoder takes tensors, but these rows are {inputs.kind}. Use an encoder for them: {other}."
            )
        shape = tuple(inputs.shape[1:])
        if len(shape) != len(self.shape) or any(e not in (None, s) for e, s in zip(self.shape, shape, strict=True)):
            expected = ", ".join("any" if side is None else str(side) for side in self.shape)
            expected += "," if len(self.shape) == 1 else ""
            raise ValueError(f"The encoder takes rows of shape ({expected}), but these have shape {shape}.")
        return inputs

    def to_inputs(self, raw: Tensor) -> Tensor:
        """Convert to floating point; bytes are divided by 255."""
        if raw.is_floating_point():
            return raw
        return raw / 255 if raw.dtype == torch.uint8 else raw.float()

    def config(self) -> dict[str, Any]:
        return {"kind": "tensor", "shape": list(self.shape)}


class Encoder(nn.Module, ABC):
    """A network from preprocessed inputs to features, together with its preprocessing.

    :meth:`config` describes architecture and preprocessing; :func:`encoder_from_config` builds the same encoder from it
    with random weights. The weights are in the `state_dict`.

    Attributes:
        num_features: Width of the features.
        preprocessing: Converts rows of a data set to inputs.
        source: The name or folder it was built from.
        notes: Assumptions made while building, one sentence each, shown before work starts.
        capturable: Whether a CUDA graph can hold a pass through it: what is launched does not depend on values.
    """

    num_features: int
    preprocessing: Preprocessing
    source: str
    notes: tuple[str, ...] = ()
    capturable: bool = False

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Compute features, shape (n, num_features), of inputs from the preprocessing, shape (n, ...)."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Describe architecture and preprocessing, in values that JSON can hold."""
