"""The interface of objectives of full-batch fits: value and gradient at a flattened head, and its curvature."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from momentalign._types import Array
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner


class Objective(ABC):
    """Mean of the domains' losses, L2 and weighted penalty terms as a function of the flattened head.

    The head is (o, d), d counting the bias as its last column: o = C logits, or one for two classes, the difference of
    their logits. :func:`solve_path` minimises it for many weights.
    """

    rows: SortedRows
    shape: tuple[int, int]
    weights: Mapping[Any, float]
    l2: float
    """Weight of half the squared norm of the coefficients; the bias is not penalised."""

    @abstractmethod
    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weights by the names of the terms; terms that are not named have weight 0."""

    @abstractmethod
    def __call__(self, head: Array) -> tuple[float, Array]:
        """Value and gradient."""

    @abstractmethod
    def terms(self, head: Array) -> dict[str, float]:
        """The terms by name, without their weights."""

    @abstractmethod
    def coordinates(self, head: Array) -> Preconditioner:
        """Coordinates in which the objective is nearly round around the head that was evaluated last."""

    @abstractmethod
    def subset(self, size: int) -> "Objective | None":
        """The objective without penalties on every k-th row of each domain; None where k would be below 4."""
