r"""The objective of the CMA family in NumPy, without automatic differentiation.

.. math:: \frac1K\sum_e L_e + \frac{\lambda}{2}\|\mathrm{coef}\|^2
          + \sum_r w_r\,\frac{1}{s_r}\,\frac1K\sum_e\big\|\nabla^r L_e - \overline{\nabla^r L}\big\|^2

with L_e the mean loss of domain e, rows weighted by their shares. Memory: the sorted copy of the rows, blocks of them,
and a few numbers per row. Time of one evaluation at order 2: two passes of n·d² for each pair of classes.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # ships no types

from momentalign._types import Array
from momentalign.linear._losses import BinaryLoss, HeadLoss, LossState, SoftmaxLoss
from momentalign.linear._objective import Objective
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner
from momentalign.linear._spreads import Spread, make_spread, second_moments
from momentalign.penalties import term_name

_ORDERS = {term_name(order): order for order in (1, 2)}
_TINY = np.finfo(np.float64).tiny / np.finfo(np.float64).eps

_DENSE, _SQUARE = 1024, 4096
"""Parameters up to which curvature is one exact matrix; features up to which it is one d × d matrix for all logits."""

_DENSE_SQUARES = 256
"""The former where the squares of all domains' matrices are needed as well."""

_WIDE = 512
"""Number of features from which BLAS may use several threads."""


class AlignmentObjective(Objective):
    r"""Alignment of gradients and Hessians, in closed form.

    Two classes of the cross-entropy have one logit but are measured as two, so that the weights mean what they mean in
    :class:`momentalign.CMA`. Terms: `gradient`, `hessian`; those of weight 0 cost nothing.

    Args:
        rows: Features, class indices 0 … C − 1, shares.
        classes: Number of classes.
        l2: λ.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`.
        loss: `"cross_entropy"`, or `"logistic"`: two classes measured as one logit.
    """

    def __init__(
        self, rows: SortedRows, classes: int, *, l2: float, scaling: str = "none", loss: str = "cross_entropy"
    ) -> None:
        self.rows, self.l2, self.scaling = rows, l2, scaling
        self.loss: HeadLoss = (
            SoftmaxLoss(classes) if classes > 2 else BinaryLoss(classes=2 if loss == "cross_entropy" else 1)
        )
        self.shape = (self.loss.outputs, rows.X.shape[1])
        self._lengths = rows.lengths if scaling == "relative" else np.empty(0)
        self._spreads: dict[int, Spread] = {}
        self.weights: dict[int, float] = {}
        self.scales: dict[int, float] = {}

    def set_weights(self, weights: Mapping[str, float]) -> None:
        one = self.rows.number == 1  # nothing to align
        self.weights = {_ORDERS[name]: weight for name, weight in weights.items() if weight and not one}
        for order in self.weights:
            if order not in self._spreads:
                self._spreads[order] = make_spread(order, self.loss, self.rows)

    def __call__(self, head: Array) -> tuple[float, Array]:
        W, shares = head.reshape(self.shape), self.rows.shares / self.rows.number
        penalised = W[:, :-1] if self.rows.bias else W
        with one_blas_thread(self.shape[1]):
            state = self._state(head)
            value = float(shares @ state.losses) + 0.5 * self.l2 * float(np.vdot(penalised, penalised))
            by_logits = state.residuals * shares[:, None]
            for r, (term, T) in self._terms(state).items():
                value += self.weights[r] * term
                by_logits += self.loss.pullback(r, state, self.weights[r] * T)
            gradient: Array = by_logits.T @ self.rows.X
        gradient[:, : penalised.shape[1]] += self.l2 * penalised
        return value, gradient.ravel()

    def terms(self, head: Array) -> dict[str, float]:
        return {term_name(order): term for order, (term, _) in self._terms(self._state(head)).items()}

    def domain_losses(self, head: Array) -> Array:
        """Mean loss of each domain, shape (K,)."""
        losses: Array = np.add.reduceat(self.rows.shares * self._state(head).losses, self.rows.starts[:-1])
        return losses

    def subset(self, size: int) -> "AlignmentObjective | None":
        step = len(self.rows.X) // size
        if step < 4:
            return None
        return AlignmentObjective(self.rows.thinned(step), max(self.loss.classes, 2), l2=self.l2)

    def coordinates(self, head: Array) -> Preconditioner:
        r"""Gauss-Newton coordinates, :math:`\bar H + \lambda I + 2\frac{w_1}{s_1}\frac1K\sum_e (H_e - \bar H)^2`."""
        if not self.weights.get(1):
            return self.precondition(self.curvatures(head, pooled=True)[0], 0.0)
        mean, squares, K = np.zeros(()), np.zeros(()), self.rows.number
        for H, square in self._curvatures(head):
            mean, squares = mean + H / K, squares + square / K
        # What rounding may have made negative in the difference of squares.
        rounding = len(mean) * np.finfo(np.float64).eps * float(np.square(mean).sum())
        spread = squares - (mean @ mean if mean.ndim == 2 else mean**2)
        spread = spread + (rounding * np.eye(len(mean)) if mean.ndim == 2 else rounding)
        units = self.loss.metric(1, np.ones(self.loss.outputs))[0]
        return self.precondition(mean, 2.0 * units * self.weights[1] / self.scales[1] * spread)

    def precondition(self, mean: Array, penalty: Array | float) -> Preconditioner:
        """Coordinates from the loss's mean curvature, as :meth:`curvatures` has it, and the penalties' curvature."""
        C, d = self.shape
        diagonal = np.full((len(mean) // d, d), self.l2)
        if self.rows.bias:
            diagonal[:, -1] = 0.0
        P = mean + (np.diag(diagonal.ravel()) if mean.ndim == 2 else diagonal.ravel()) + penalty
        if C > 1 and mean.shape == (C * d, C * d):
            # Adding one vector to all logits' heads changes no probability: no curvature there, and no step goes there.
            P = P + np.kron(np.full((C, C), 1.0 / C), np.eye(d) * (np.trace(mean) / len(mean)))
        return Preconditioner(P)

    def curvatures(self, head: Array, *, pooled: bool = False) -> Array:
        """Hessians of the domains' losses, (K, od, od); mean diagonal blocks (K, d, d), or (K, d), for large heads.

        Pooled: their mean over domains, with K = 1.
        """
        return np.stack([H for H, _ in self._curvatures(head, pooled=pooled)])

    def _curvatures(self, head: Array, *, pooled: bool = False) -> Iterator[tuple[Array, Array | float]]:
        """One of :meth:`curvatures` after the other; where the gradients are aligned with its square."""
        outputs, d = self.shape
        squares = not pooled and 1 in self.weights
        with one_blas_thread(d):
            S = self.loss.coordinates(2, self._state(head)) * self.rows.shares[:, None]
            dense = outputs * d <= (_DENSE_SQUARES if squares and outputs > 1 else _DENSE)
            if pooled:
                S /= self.rows.number
            if not dense and outputs > 1:
                # The trace of A is twice the sum over pairs of p_a p_b.
                S = S.sum(1, keepdims=True) * (2.0 / outputs)
            for part in [slice(None)] if pooled else self.rows.parts:
                X, own = self.rows.X[part], S[part]
                if not dense and d > _SQUARE:
                    diagonal = np.einsum("n,nd,nd->d", own[:, 0], X, X)
                    yield diagonal, diagonal**2
                    continue
                moments = second_moments(X, own)
                H = self._assembled(moments) if dense else moments[0]
                if not squares or dense or len(X) > d:
                    yield H, H @ H if squares else 0.0
                else:
                    Y = X * np.sqrt(own)
                    yield H, Y.T @ (Y @ Y.T @ Y)

    def _assembled(self, moments: Array) -> Array:
        """The Hessian (od, od) from the pairs' second moments (q, d, d)."""
        outputs, d = self.shape
        if outputs == 1:
            single: Array = moments[0]
            return single
        a, b = np.triu_indices(outputs, 1)
        H = np.zeros((outputs, outputs, d, d))
        H[a, b] = H[b, a] = -moments
        every = np.arange(outputs)
        H[every, every] = -H.sum(0)
        return H.transpose(0, 2, 1, 3).reshape(outputs * d, outputs * d)

    def _terms(self, state: LossState) -> dict[int, tuple[float, Array]]:
        """The terms by order and their derivatives by the coordinates (n, q); sets :attr:`scales`."""
        classes, dimension = self.loss.classes, self.shape[1]
        found = {}
        for r in self.weights:
            S = self.loss.coordinates(r, state)
            spread, T = self._spreads[r](S)
            if self.scaling == "relative":
                shares = self.rows.shares * self._lengths**r / self.rows.number
                by_energy = self.loss.metric(r, S) * shares[:, None]
                scale = float(np.vdot(S, by_energy))
                # Infinite where energies underflow, so that 0/0 counts as 0.
                if scale <= max(1.0, float(self._lengths.max())) ** r * _TINY:
                    scale = np.inf
                else:
                    T = T - (2.0 * spread / scale) * by_energy
            else:
                units = {"none": 1, "classes": classes**r, "parameters": (dimension * classes) ** 2}
                scale = float(units[self.scaling])
            self.scales[r] = scale
            found[r] = (spread / scale, T / scale)
        return found

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
