"""What every encoder of this package is."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from momentalign.encoders._preprocessing import Preprocessing


class Encoder(nn.Module, ABC):
    """A network that turns prepared inputs into features, with the preprocessing that prepares them.

    Architecture and preprocessing are described by :meth:`config`, from which :func:`encoder_from_config` builds the
    same encoder with random weights; the weights themselves are in the `state_dict`.

    Attributes:
        num_features: Width of the features.
        preprocessing: Turns rows of a data set into inputs.
        source: What it was built from, as people type it.
        notes: What was assumed on the way, a sentence each, to be shown before work starts.
    """

    num_features: int
    preprocessing: Preprocessing
    source: str
    notes: tuple[str, ...] = ()

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the features of a batch.

        Args:
            inputs: As the preprocessing gives them, shape (n, ...).

        Returns:
            Features, shape (n, num_features).
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Describe architecture and preprocessing, in values that JSON can hold."""
