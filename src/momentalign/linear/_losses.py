r"""Classification losses of a linear head in NumPy: residual coordinates and their derivatives by the logits.

A residual tensor :math:`\kappa_r` of order 1 or 2 has q coordinates per sample, S (n, q), and a metric M with
:math:`\langle\kappa_r(i),\kappa_r(j)\rangle = S_i M S_j^\top`. Every alignment term is a function of S alone, so a loss
provides S itself, products with M, and the pullback of a derivative by S to the logits.

Legend: Z (n, o) logits, P (n, C) probabilities, S (n, q) coordinates, T (n, q) derivative by S.
"""

from typing import NamedTuple

import numpy as np

from momentalign._types import Array, Integers


class LossState(NamedTuple):
    """Logits (n, o), losses (n,), residuals (n, o), and P (n, C), or of one logit variance and skew (n, 2)."""

    logits: Array
    losses: Array
    residuals: Array
    parts: Array


class BinaryLoss:
    """Two classes and one logit, the difference of the two.

    Derivatives are measured as those of two logits, each order r by 2^r more than of the one.
    """

    outputs = pairs = 1
    classes = 2

    def state(self, Z: Array, targets: Integers) -> LossState:
        """Losses, residuals and parts."""
        # One exponential of −|z| for all: it cannot overflow, and p(1 − p) keeps its digits where p is next to 0 or 1.
        sign = (2.0 * targets - 1.0)[:, None]
        margin = sign * Z
        small = np.exp(-np.abs(Z))
        losses = np.log1p(small) + np.maximum(-margin, 0.0)
        total = 1.0 + small
        residuals = -sign * np.where(margin >= 0, small, 1.0) / total
        parts = np.hstack([small / np.square(total), np.copysign((1.0 - small) / total, -Z)])
        return LossState(Z, losses[:, 0], residuals, parts)

    def coordinates(self, order: int, state: LossState) -> Array:
        """S of an order; not negative at order 2."""
        return state.residuals if order == 1 else state.parts[:, :1]

    def metric(self, order: int, S: Array) -> Array:
        """S M, over the last axis."""
        return S * 2.0**order

    def pullback(self, order: int, state: LossState, T: Array) -> Array:
        """Derivative by the logits (n, o) of a function whose derivative by S is T."""
        variance, skew = state.parts[:, :1], state.parts[:, 1:]
        return T * (variance if order == 1 else variance * skew)


class SoftmaxLoss:
    """Cross-entropy of three classes or more.

    Order 2 in the C(C−1)/2 numbers p_a p_b, A = Σ p_a p_b (e_a − e_b)(e_a − e_b)ᵀ.
    """

    def __init__(self, classes: int) -> None:
        self.outputs = self.classes = classes
        self._a, self._b = np.triu_indices(classes, 1)
        self.pairs = len(self._a)
        self._first, self._second = np.eye(classes)[self._a], np.eye(classes)[self._b]

    def state(self, Z: Array, targets: Integers) -> LossState:
        """Losses, residuals and parts."""
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
        return LossState(Z, losses, residuals, P)

    def coordinates(self, order: int, state: LossState) -> Array:
        """S of an order; not negative at order 2."""
        if order == 1:
            return state.residuals
        products: Array = state.parts[:, self._a] * state.parts[:, self._b]
        return products

    def metric(self, order: int, S: Array) -> Array:
        """S M, over the last axis."""
        if order == 1:
            return S
        # A pair's off-diagonal blocks count twice, and each of its two diagonal blocks is the sum over pairs.
        incidence = self._first + self._second
        raised: Array = 2.0 * S + (S @ incidence) @ incidence.T
        return raised

    def pullback(self, order: int, state: LossState, T: Array) -> Array:
        """Derivative by the logits (n, o) of a function whose derivative by S is T."""
        P = state.parts
        if order == 2:
            T = (T * P[:, self._b]) @ self._first + (T * P[:, self._a]) @ self._second
        by_logits: Array = P * (T - (P * T).sum(1, keepdims=True))
        return by_logits


HeadLoss = BinaryLoss | SoftmaxLoss
