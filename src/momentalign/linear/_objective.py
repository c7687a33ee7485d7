"""The mean of the domains' losses as a function of a linear head, in NumPy: value, gradient and curvature."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # ships no types

from momentalign._types import Array
from momentalign.linear._losses import BinaryLoss, HeadLoss, LossState, SoftmaxLoss
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner
from momentalign.linear._spreads import second_moments

DENSE, SQUARE = 1024, 4096
"""Parameters up to which curvature is one exact matrix; features up to which it is one d × d matrix for all logits."""

_WIDE = 512
"""Number of features from which BLAS may use several threads."""


class Objective:
    r"""Mean of the domains' losses and L2 as a function of the flattened head; subclasses add weighted terms.

    The head is (o, d), d counting the bias as its last column: o = C logits, or one for two classes, the difference of
    their logits. :func:`solve_path` minimises it for many weights.

    Args:
        rows: Features, class indices 0 … C − 1, shares.
        classes: Number of classes.
        l2: Weight of half the squared norm of the coefficients; the bias is not penalised. May be changed.
    """

    def __init__(self, rows: SortedRows, classes: int, *, l2: float) -> None:
        self.rows, self.l2 = rows, l2
        self.loss: HeadLoss = SoftmaxLoss(classes) if classes > 2 else BinaryLoss()
        self.shape = (self.loss.outputs, rows.X.shape[1])
        self.weights: dict[str, float] = {}
        self._penalised = np.ones(self.shape[1])
        self._penalised[self.shape[1] - rows.bias :] = 0.0

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weights by the names of the terms; terms that are not named have weight 0."""
        self.weights = {name: weight for name, weight in weights.items() if weight}

    def __call__(self, head: Array) -> tuple[float, Array]:
        """Value and gradient."""
        W, shares = head.reshape(self.shape), self.rows.shares / self.rows.number
        with one_blas_thread(self.shape[1]):
            state = self._state(head)
            value, by_logits = float(shares @ state.losses), state.residuals * shares[:, None]
            if self.weights:
                penalty, by_penalty = self._penalise(state)
                value, by_logits = value + penalty, by_logits + by_penalty
            gradient: Array = by_logits.T @ self.rows.X
        shrunk = self.l2 * self._penalised * W
        return value + 0.5 * float(np.vdot(shrunk, W)), (gradient + shrunk).ravel()

    def _penalise(self, state: LossState) -> tuple[float, Array]:
        """The weighted terms, and their derivative by the logits (n, o)."""
        return 0.0, np.zeros_like(state.residuals)

    def terms(self, head: Array) -> dict[str, float]:
        """The terms by name, without their weights."""
        return {}

    def domain_losses(self, head: Array) -> Array:
        """Mean loss of each domain, shape (K,)."""
        losses: Array = np.add.reduceat(self.rows.shares * self._state(head).losses, self.rows.starts[:-1])
        return losses

    def subset(self, size: int) -> "Objective | None":
        """The objective without penalties on every k-th row of each domain; None where k would be below 4."""
        step = len(self.rows.X) // size
        return None if step < 4 else Objective(self.rows.thinned(step), self.loss.classes, l2=self.l2)

    def coordinates(self, head: Array) -> Preconditioner:
        """Coordinates in which the objective is nearly round around the head that was evaluated last."""
        return self._precondition(self.curvature(head))

    def curvature(self, head: Array) -> Array:
        """Hessian of the mean loss, (od, od); its mean diagonal block (d, d), or (d,), for large heads."""
        with one_blas_thread(self.shape[1]):
            return self._hessian(self.rows.X, self._pair_weights(head, DENSE) / self.rows.number)

    def _pair_weights(self, head: Array, dense: int) -> Array:
        """Weights of the rows' second moments in the domains' Hessians: of each pair of logits, or one for all."""
        S = self.loss.coordinates(2, self._state(head)) * self.rows.shares[:, None]
        outputs, d = self.shape
        # The trace of A is twice the sum over pairs of p_a p_b.
        return S if outputs * d <= dense or outputs == 1 else S.sum(1, keepdims=True) * (2.0 / outputs)

    def _hessian(self, X: Array, S: Array) -> Array:
        """Sum of the rows' Hessians with such weights, as :meth:`curvature` has it."""
        outputs, d = self.shape
        if d > SQUARE:
            diagonal: Array = np.einsum("n,nd,nd->d", S[:, 0], X, X)
            return diagonal
        moments = second_moments(X, S)
        if len(moments) == 1:
            single: Array = moments[0]
            return single
        a, b = np.triu_indices(outputs, 1)
        H = np.zeros((outputs, outputs, d, d))
        H[a, b] = H[b, a] = -moments
        every = np.arange(outputs)
        H[every, every] = -H.sum(0)
        return H.transpose(0, 2, 1, 3).reshape(outputs * d, outputs * d)

    def _precondition(self, mean: Array, penalty: Array | float = 0.0) -> Preconditioner:
        """Coordinates from the loss's curvature and the penalties'."""
        C, d = self.shape
        diagonal = np.tile(self.l2 * self._penalised, len(mean) // d)
        P = mean + (np.diag(diagonal) if mean.ndim == 2 else diagonal) + penalty
        if C > 1 and mean.shape == (C * d, C * d):
            # Adding one vector to all logits' heads changes no probability: no curvature there, and no step goes there.
            P = P + np.kron(np.full((C, C), 1.0 / C), np.eye(d) * (np.trace(mean) / len(mean)))
        return Preconditioner(P)

    def _state(self, head: Array) -> LossState:
        return self.loss.state(self.rows.X @ head.reshape(self.shape).T, self.rows.targets)


def one_blas_thread(dimension: int) -> AbstractContextManager[Any]:
    """Keep BLAS to one thread while blocks of few features are multiplied.

    A product of a megabyte takes a fraction of a millisecond. Handing half of it to another thread costs about as much
    as it saves on an idle machine, and ten times as much on a busy one.
    """
    if dimension >= _WIDE:
        return nullcontext()
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
