"""From the rows of a data set to what an encoder's forward pass receives."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from momentalign.data import Items, TableRows


class Preprocessing(ABC):
    """Rows to raw tensors, on the host; raw tensors to inputs, on the device, with augmentation or without."""

    @abstractmethod
    def open(self, inputs: Tensor | Items) -> Tensor | Dataset[Tensor]:
        """Make raw rows of a split's inputs.

        Args:
            inputs: A split's inputs, n rows.

        Returns:
            A tensor of n rows, or a data set that reads row by row.

        Raises:
            ValueError: The encoder does not take such inputs.
        """

    @abstractmethod
    def to_inputs(self, raw: Tensor) -> Tensor:
        """Prepare raw rows for evaluation, on whatever device they are.

        Args:
            raw: Rows as :meth:`open` gives them, shape (n, ...).

        Returns:
            What the encoder receives, shape (n, ...).
        """

    def augment(self, raw: Tensor) -> Tensor:
        """Prepare raw rows for training, with random changes where the kind of input has any.

        Args:
            raw: Rows as :meth:`open` gives them, shape (n, ...).

        Returns:
            What the encoder receives, shape (n, ...).
        """
        return self.to_inputs(raw)

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Describe the preprocessing, in values that JSON can hold."""


class TensorPreprocessing(Preprocessing):
    """Rows that are tensors already: numbers stay as they are, bytes become numbers in [0, 1].

    Args:
        shape: What one row should look like; None where any length will do.

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

    def open(self, inputs: Tensor | Items) -> Tensor:
        """Check the rows; they stay where and as they are.

        Args:
            inputs: A split's inputs, n rows.

        Returns:
            The same tensor.

        Raises:
            ValueError: Not tensors, or rows of another shape.
        """
        if isinstance(inputs, Items):
            other = "mlp" if isinstance(inputs, TableRows) else "hf:NAME or a folder in Hugging Face format"
            raise ValueError(
                f"The encoder takes tensors, but these rows are {inputs.kind}. Use an encoder for them: {other}."
            )
        found = tuple(inputs.shape[1:])
        if len(found) != len(self.shape) or any(e not in (None, f) for e, f in zip(self.shape, found, strict=True)):
            expected = ", ".join("any" if side is None else str(side) for side in self.shape)
            expected += "," if len(self.shape) == 1 else ""
            raise ValueError(f"The encoder takes rows of shape ({expected}), but these have shape {found}.")
        return inputs

    def to_inputs(self, raw: Tensor) -> Tensor:
        """Numbers as they are, bytes divided by 255.

        Args:
            raw: Rows, shape (n, ...).

        Returns:
            Floating-point numbers of the same shape.
        """
        if raw.is_floating_point():
            return raw
        return raw / 255 if raw.dtype == torch.uint8 else raw.float()

    def config(self) -> dict[str, Any]:
        """Describe the preprocessing, in values that JSON can hold."""
        return {"kind": "tensor", "shape": list(self.shape)}
