r"""Losses of a linear head, and the residual tensors of their derivatives.

For a linear head W (C x d) the derivative of order r of one sample's loss factors as

.. math:: D_r(i) = \kappa_r(i) \otimes x_i^{\otimes r}

so a loss is given by its residual tensors :math:`\kappa_r`. A :class:`Residuals` computes what the routes need of
them for the n samples of a block, without forming :math:`\kappa_r` itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional


class Residuals(ABC):
    """Residual tensors of one loss for n samples.

    Args:
        logits: Shape (n, C).
        targets: As the loss takes them.
    """

    highest_order: int | None = None
    """Highest order with a closed form; None for every order."""

    def __init__(self, logits: Tensor, targets: Tensor) -> None:
        self.logits, self.targets, self.outputs = logits, targets, logits.shape[1]
        self._state: tuple[Tensor, ...] | None = None

    @property
    def state(self) -> tuple[Tensor, ...]:
        """Tensors with one row for each sample, from which all but the losses is computed."""
        if self._state is None:
            self._state = self.prepare(self.logits, self.targets)
        return self._state

    @classmethod
    def of_rows(cls, state: tuple[Tensor, ...]) -> Self:
        """Residuals of a block of rows, from those rows of :attr:`state`."""
        block = cls.__new__(cls)
        block._state = state
        return block

    @staticmethod
    @abstractmethod
    def prepare(logits: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """Compute :attr:`state`."""

    @property
    @abstractmethod
    def losses(self) -> Tensor:
        """Losses, shape (n,)."""

    @property
    @abstractmethod
    def gradient(self) -> Tensor:
        """First residual, shape (n, C): the loss's gradient with respect to the logits."""

    @abstractmethod
    def grams(self, orders: Collection[int], other: "Residuals") -> dict[int, Tensor]:
        """Inner products of residual tensors, shape (n, m) for each order, m samples in `other`."""

    @abstractmethod
    def energies(self, orders: Collection[int]) -> dict[int, Tensor]:
        """Squared norms of the residual tensors, shape (n,) for each order."""

    @abstractmethod
    def hessian_times(self, vectors: Tensor) -> Tensor:
        """Second residual of each sample applied to that sample's row of `vectors`, shape (n, C)."""

    @abstractmethod
    def hessian_diagonal(self) -> Tensor:
        """Diagonal of the second residual, shape (n, C)."""

    @abstractmethod
    def coefficients(self, order: int) -> Tensor:
        """The q numbers that determine the residual tensor of an order linearly, shape (n, q)."""

    @abstractmethod
    def inner(self, order: int, blocks: Tensor) -> Tensor:
        """Inner products (K, K) of the tensors given by weighted sums of :meth:`coefficients`, shape (K, q, ...)."""

    @abstractmethod
    def dense(self, order: int, blocks: Tensor) -> Tensor:
        """Map weighted sums of :meth:`coefficients`, shape (q, ...), to the tensor itself, (C, ..., C, ...)."""


class LogisticResiduals(Residuals):
    r"""Binary logistic loss of one logit: :math:`\kappa_r = Q_r(p)`, a number, for every order.

    :math:`Q_1 = p - y` and :math:`Q_{r+1}(p) = Q_r'(p)\,p(1-p)`. Past the first order p(1-p) is a factor of
    :math:`Q_r`; it is computed from the logit, so that it keeps its digits where p is close to 0 or 1. In float64
    twelve digits are left at order 20, eight at order 40.
    """

    @staticmethod
    def prepare(logits: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """Probabilities p, variances p(1 − p) and gradients p − y, each (n, 1)."""
        p, q, y = logits.sigmoid(), (-logits).sigmoid(), targets.to(logits.dtype).reshape(-1, 1)
        return p, p * q, p * (1 - y) - q * y  # p − y without a difference of numbers close to one

    @property
    def losses(self) -> Tensor:
        targets = self.targets.to(self.logits.dtype).reshape(self.logits.shape)
        return functional.binary_cross_entropy_with_logits(self.logits, targets, reduction="none")[:, 0]

    @property
    def gradient(self) -> Tensor:
        return self.state[2]

    def coefficients(self, order: int) -> Tensor:
        if order == 1:
            return self.gradient
        probabilities, variance, _ = self.state
        value = variance if order % 2 == 0 else variance * (1 - 2 * probabilities)
        if order < 4:
            return value
        *lower, factor = _cofactor(order)
        series: Tensor | float = factor
        for coefficient in reversed(lower):
            series = series * variance + coefficient
        return value * series

    def grams(self, orders: Collection[int], other: Residuals) -> dict[int, Tensor]:
        return {order: self.coefficients(order) @ other.coefficients(order).T for order in orders}

    def energies(self, orders: Collection[int]) -> dict[int, Tensor]:
        return {order: self.coefficients(order).square().sum(1) for order in orders}

    def hessian_times(self, vectors: Tensor) -> Tensor:
        return self.state[1] * vectors

    def hessian_diagonal(self) -> Tensor:
        return self.state[1]

    def inner(self, order: int, blocks: Tensor) -> Tensor:
        return blocks.flatten(1) @ blocks.flatten(1).T

    def dense(self, order: int, blocks: Tensor) -> Tensor:
        return blocks.reshape([size for length in blocks.shape[1:] for size in (1, length)])


class SquaredErrorResiduals(Residuals):
    """Squared error ½‖Wx − y‖²: the residual, the identity, and zero from the third order on."""

    @staticmethod
    def prepare(logits: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """Gradients Wx − y, shape (n, C)."""
        return (logits - targets.to(logits.dtype).reshape(logits.shape),)

    @property
    def losses(self) -> Tensor:
        return self.gradient.square().sum(1) / 2

    @property
    def gradient(self) -> Tensor:
        return self.state[0]

    def coefficients(self, order: int) -> Tensor:
        if order == 1:
            return self.gradient
        return self.gradient.new_full((len(self.gradient), 1), 1.0 if order == 2 else 0.0)

    def grams(self, orders: Collection[int], other: Residuals) -> dict[int, Tensor]:
        outputs = self.gradient.shape[1]
        return {
            order: self.coefficients(order) @ other.coefficients(order).T * (1 if order == 1 else outputs)
            for order in orders
        }

    def energies(self, orders: Collection[int]) -> dict[int, Tensor]:
        outputs = self.gradient.shape[1]
        return {order: self.coefficients(order).square().sum(1) * (1 if order == 1 else outputs) for order in orders}

    def hessian_times(self, vectors: Tensor) -> Tensor:
        return vectors

    def hessian_diagonal(self) -> Tensor:
        return torch.ones_like(self.gradient)

    def inner(self, order: int, blocks: Tensor) -> Tensor:
        return blocks.flatten(1) @ blocks.flatten(1).T * (1 if order == 1 else self.gradient.shape[1])

    def dense(self, order: int, blocks: Tensor) -> Tensor:
        if order == 1:
            return blocks
        outputs = self.gradient.shape[1]
        if order > 2:
            return blocks.new_zeros([size for length in blocks.shape[1:] for size in (outputs, length)])
        identity = torch.eye(outputs, dtype=blocks.dtype, device=blocks.device)
        return torch.einsum("ac,ij->aicj", identity, blocks[0])


def _cofactor(order: int) -> list[float]:
    r"""Coefficients, lowest power first, of W in Q = v W(v), or v (1 − 2p) W(v) for an odd order, with v = p(1 − p).

    From v′ = v (1 − 2p) and (1 − 2p)² = 1 − 4v. In powers of v, at most ¼, fewer digits cancel than in those of p.
    """
    coefficients = [1]
    for odd in range(3, order + 1):
        scaled = [(1 + power) * coefficient for power, coefficient in enumerate(coefficients)]  # W + v W′
        if odd % 2 == 0:  # (1 − 4v)(W + v W′) − 2v W
            shifted = [4 * s + 2 * c for s, c in zip(scaled, coefficients, strict=True)]
            scaled = [s - t for s, t in zip([*scaled, 0], [0, *shifted], strict=True)]
        coefficients = scaled
    return [float(coefficient) for coefficient in coefficients]
