"""Base classes of encoders and of their preprocessing."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from momentalign.data import Items, TableRows


class Preprocessing(ABC):
    """Inputs of a data set to raw tensors on the host; raw tensors to an encoder's inputs on the device.

    Attributes:
        kind: Name in configurations.
        shape: Shape of a raw row; None for a dimension of any length.
        capturable: Whether a CUDA graph can hold :meth:`augment`: it launches the same operations every time.
        augmentation: Which random changes :meth:`augment` makes; no part of :meth:`config`, since only training needs
            it.
        is_small: Whether all images that are decoded fit into memory.
    """

    kind: ClassVar[str]
    shape: tuple[int | None, ...]
    capturable: bool = True
    augmentation: str = "none"
    is_small: bool = False

    def coerce(self, inputs: Any) -> Items:
        """Convert a list or a data frame to items; TypeError if the encoder takes no such rows."""
        raise TypeError(f"'inputs' should be a tensor for this model, but is a {type(inputs).__name__}.")

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

    def example(self, number: int) -> Tensor:
        """Raw rows as :meth:`open` returns them, of random numbers."""
        shape = (number, *(28 if side is None else side for side in self.shape))
        return torch.rand(shape, generator=torch.Generator().manual_seed(0))

    def describe_rows(self, inputs: Items, rows: str) -> list[str]:
        """Sentences on what of the inputs called `rows` was filled or ignored."""
        return []

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Describe the preprocessing, in values that JSON can hold."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`config`."""
        return cls(**_without_kind(config))


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

    kind = "tensor"

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
        return {"kind": self.kind, "shape": list(self.shape)}


class Encoder(nn.Module, ABC):
    """A network from preprocessed inputs to features, together with its preprocessing.

    :meth:`config` describes architecture and preprocessing; :func:`encoder_from_config` builds the same encoder from it
    with random weights. The weights are in the `state_dict`.

    Attributes:
        kind: Name in configurations.
        num_features: Width of the features.
        preprocessing: Converts rows of a data set to inputs.
        source: The name or folder it was built from.
        notes: Assumptions made while building, one sentence each, shown before work starts.
        capturable: Whether a CUDA graph can hold a pass through it: what is launched does not depend on values.
    """

    kind: ClassVar[str]
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

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the same encoder with random weights."""
        return cls(**_without_kind(config))


def _without_kind(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "kind"}
