r"""Classification losses of a linear head in NumPy: residual coordinates and their derivatives by the logits.

A residual tensor :math:`\kappa_r` has q coordinates per sample, S (n, q), and a metric M with
:math:`\langle\kappa_r(i),\kappa_r(j)\rangle = S_i M S_j^\top`. Every alignment term is a function of S alone, so a loss
provides S itself, products with M, and the pullback of a derivative by S to the logits.

Legend: Z (n, o) logits, P (n, C) probabilities, S (n, q) coordinates, T (n, q) derivative by S.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array, Integers


class LossState(NamedTuple):
    """Losses (b,), residuals (b, o) and intermediate results of a block of rows."""

    losses: Array
    residuals: Array
    parts: tuple[Array, ...]

    def take(self, rows: slice) -> "LossState":
        """Some of the rows."""
        return LossState(self.losses[rows], self.residuals[rows], tuple(part[rows] for part in self.parts))


class HeadLoss(ABC):
    """A loss of `outputs` logits, with `classes` classes for the scalings."""

    outputs: int
    classes: int

    @abstractmethod
    def state(self, Z: Array, targets: Integers) -> LossState:
        """Losses, residuals and parts of a block of rows."""

    @abstractmethod
    def coordinates(self, order: int, state: LossState) -> Array:
        """S of an order; not negative at order 2."""

    @abstractmethod
    def metric(self, order: int, S: Array) -> Array:
        """S M, over the last axis."""

    @abstractmethod
    def pullback(self, order: int, state: LossState, T: Array) -> Array:
        """Derivative by the logits (b, o) of a function whose derivative by S is T."""

    @abstractmethod
    def width(self, order: int) -> int:
        """Number q of coordinates of an order."""


class BinaryLoss(HeadLoss):
    """Two classes and one logit, the difference of the two.

    Args:
        classes: 2 measures derivatives as the cross-entropy of two logits does, each order r by 2^r more than the
            logistic loss of one logit, which is 1.
    """

    outputs = 1

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def state(self, Z: Array, targets: Integers) -> LossState:
        # One exponential of −|z| for all: it cannot overflow, and p(1 − p) keeps its digits where p is next to 0 or 1.
        sign = (2.0 * targets - 1.0)[:, None]
        margin = sign * Z
        small = np.exp(-np.abs(Z))
        losses = np.log1p(small) + np.maximum(-margin, 0.0)
        total = 1.0 + small
        residuals = -sign * np.where(margin >= 0, small, 1.0) / total
        return LossState(losses[:, 0], residuals, (small / np.square(total), np.copysign((1.0 - small) / total, -Z)))

    def coordinates(self, order: int, state: LossState) -> Array:
        variance, skew = state.parts
        return (state.residuals, variance, variance * skew)[order - 1]

    def metric(self, order: int, S: Array) -> Array:
        return S * float(self.classes**order)

    def pullback(self, order: int, state: LossState, T: Array) -> Array:
        variance, skew = state.parts
        return T * (variance, variance * skew, variance * (1.0 - 6.0 * variance))[order - 1]

    def width(self, order: int) -> int:
        return 1


class SoftmaxLoss(HeadLoss):
    """Cross-entropy of three classes or more.

    Order 2 in the C(C−1)/2 numbers p_a p_b, A = Σ p_a p_b (e_a − e_b)(e_a − e_b)ᵀ; order 3 in the entries a ≤ b ≤ c of
    the third central moment.
    """

    def __init__(self, classes: int) -> None:
        self.outputs = self.classes = classes
        identity = np.eye(classes)
        self._pairs = np.triu_indices(classes, 1)
        self._incidence = identity[self._pairs[0]] + identity[self._pairs[1]]

    def state(self, Z: Array, targets: Integers) -> LossState:
        shifted = Z - Z.max(1, keepdims=True)
        P = np.exp(shifted)
        totals = P.sum(1, keepdims=True)
        P /= totals
        rows = np.arange(len(Z))
        losses = np.log(totals[:, 0]) - shifted[rows, targets]
        residuals = P.copy()
        # The likely class's residual is minus the others' sum: 1 − p would lose its digits.
        residuals[rows, targets] = 0.0
        residuals[rows, targets] = -residuals.sum(1)
        return LossState(losses, residuals, (P,))

    def coordinates(self, order: int, state: LossState) -> Array:
        (P,) = state.parts
        if order == 1:
            return state.residuals
        if order == 2:
            products: Array = P[:, self._pairs[0]] * P[:, self._pairs[1]]
            return products
        a, b, c, same_ab, same_bc = self._triples()
        A, B, C = P[:, a], P[:, b], P[:, c]
        third: Array = same_ab * same_bc * A * (1 - B) - same_ab * A * C - same_bc * A * B + 2 * A * B * C
        return third

    def metric(self, order: int, S: Array) -> Array:
        if order == 1:
            return S
        if order == 2:
            # A pair's off-diagonal blocks count twice, and each of its two diagonal blocks is the sum over pairs.
            raised: Array = 2.0 * S + (S @ self._incidence) @ self._incidence.T
            return raised
        *_, same_ab, same_bc = self._triples()
        # Of the six orders of a triple, three are the same where two classes are, all of them where three are.
        counted: Array = S * np.array([6.0, 3.0, 1.0])[(same_ab + same_bc).astype(int)]
        return counted

    def pullback(self, order: int, state: LossState, T: Array) -> Array:
        (P,) = state.parts
        if order == 1:
            derivative: Array = T
        elif order == 2:
            a, b = self._pairs
            identity = np.eye(self.classes)
            derivative = (T * P[:, b]) @ identity[a] + (T * P[:, a]) @ identity[b]
        else:
            derivative = self._third_by_probabilities(P, T)
        by_logits: Array = P * (derivative - (P * derivative).sum(1, keepdims=True))
        return by_logits

    def width(self, order: int) -> int:
        C = self.classes
        return (C, C * (C - 1) // 2, C * (C + 1) * (C + 2) // 6)[order - 1]

    def _third_by_probabilities(self, P: Array, T: Array) -> Array:
        a, b, c, same_ab, same_bc = self._triples()
        A, B, C = P[:, a], P[:, b], P[:, c]
        identity, all_same = np.eye(self.classes), same_ab * same_bc
        by_a = all_same * (1.0 - B) - same_ab * C - same_bc * B + 2 * B * C
        by_b = -same_bc * A - all_same * A + 2 * A * C
        by_c = -same_ab * A + 2 * A * B
        by_probabilities: Array = (T * by_a) @ identity[a] + (T * by_b) @ identity[b] + (T * by_c) @ identity[c]
        return by_probabilities

    def _triples(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], Array, Array]:
        """Indices a ≤ b ≤ c, and 1 where a = b, where b = c."""
        every = np.arange(self.classes)
        a, b, c = np.nonzero((every[:, None, None] <= every[:, None]) & (every[:, None] <= every))
        return a, b, c, (a == b).astype(float), (b == c).astype(float)
