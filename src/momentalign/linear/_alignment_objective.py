r"""The objective of the CMA family in NumPy, without automatic differentiation.

.. math:: \frac1K\sum_e L_e + \frac{\lambda}{2}\|\mathrm{coef}\|^2
          + \sum_r w_r\,\frac{1}{s_r}\,\frac1K\sum_e\big\|\nabla^r L_e - \overline{\nabla^r L}\big\|^2

with L_e the mean loss of domain e, rows weighted by their shares. Memory: the sorted copy of the rows, blocks of them,
and a few numbers per row. Time of one evaluation at order 2: two passes of n·d² for each pair of classes.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # ships no types

from momentalign._types import Array
from momentalign.linear._losses import BinaryLoss, HeadLoss, LossState, SoftmaxLoss
from momentalign.linear._objective import Objective
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner
from momentalign.linear._spreads import DirectSpread, HessianSpread, KernelSpread, make_spread
from momentalign.penalties import term_name

_ORDERS = {term_name(order): order for order in (1, 2, 3)}
_TINY = np.finfo(np.float64).tiny / np.finfo(np.float64).eps

_DENSE, _SQUARE = 1024, 4096
"""Parameters up to which curvature is one exact matrix; features up to which it is one d × d matrix for all logits."""

_DENSE_SQUARES = 256
"""The former where the squares of all domains' matrices are needed, but no Hessian spread has them anyway."""

_HELD = 2**25
"""Numbers in all domains' curvatures up to which they are held at once, 256 MiB; beyond, they are summed one by one."""

_WIDE = 512
"""Number of features from which BLAS may use several threads."""


class _Forward(NamedTuple):
    """One pass over the rows: summed loss, states of the blocks, spreads by order, derivatives of kernel spreads."""

    total: float
    states: list[LossState]
    spreads: dict[int, float]
    slopes: dict[int, Array]


class AlignmentObjective(Objective):
    r"""Alignment of gradients, Hessians and third derivatives, in closed form.

    Two classes of the cross-entropy have one logit but are measured as two, so that the weights mean what they mean in
    :class:`momentalign.CMA`. Terms: `gradient`, `hessian`, `order_3`; those of weight 0 cost nothing.

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
        self._blocks = list(rows.blocks())
        self._chunks = list(rows.chunks())
        self._lengths = rows.lengths if scaling == "relative" else np.empty(0)
        self._spreads: dict[int, DirectSpread | KernelSpread] = {}
        self.weights: dict[int, float] = {}
        self.scales: dict[int, float] = {}
        self._moments_at: Array | None = None

    def set_weights(self, weights: Mapping[str, float]) -> None:
        one = self.rows.number == 1  # nothing to align
        self.weights = {_ORDERS[name]: weight for name, weight in weights.items() if weight and not one}
        for order in self.weights:
            if order not in self._spreads:
                self._spreads[order] = make_spread(order, self.loss, self.rows)

    def __call__(self, head: Array) -> tuple[float, Array]:
        W, K = head.reshape(self.shape), self.rows.number
        total, states, spreads, slopes = self._forward(head)
        scales = self.scales
        penalised = W[:, :-1] if self.rows.bias else W
        value = total / K + 0.5 * self.l2 * float(np.vdot(penalised, penalised))
        value += sum(w * spreads[r] / scales[r] for r, w in self.weights.items())

        gradient = self.l2 * W
        if self.rows.bias:
            gradient[:, -1] = 0.0
        with _one_thread(self.shape[1]):
            for (domain, block), state in zip(self._blocks, states, strict=True):
                X, u = self.rows.X[block], self.rows.shares[block]
                by_logits = state.residuals * (u / K)[:, None]
                for r, weight in self.weights.items():
                    spread = self._spreads[r]
                    T = spread.pull(domain, X) * u[:, None] if isinstance(spread, DirectSpread) else slopes[r][block]
                    if self.scaling == "relative" and np.isfinite(scales[r]):
                        S = self.loss.coordinates(r, state)
                        share = (2.0 / K * spreads[r] / scales[r]) * u * self._lengths[block] ** r
                        T = T - share[:, None] * self.loss.metric(r, S)
                    by_logits += self.loss.pullback(r, state, T * (weight / scales[r]))
                gradient += by_logits.T @ X
        return value, gradient.ravel()

    def terms(self, head: Array) -> dict[str, float]:
        spreads = self._forward(head).spreads
        return {term_name(order): spread / self.scales[order] for order, spread in spreads.items()}

    def domain_losses(self, head: Array) -> Array:
        """Mean loss of each domain, shape (K,)."""
        losses = np.zeros(self.rows.number)
        for domain, _, _, u, state in self._states(head):
            losses[domain] += u @ state.losses
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
        mean, squares = self._curvature_and_spread(head)
        units = self.loss.metric(1, np.ones(self.loss.width(1)))[0]
        return self.precondition(mean, 2.0 * units * self.weights[1] / self.scales[1] * squares)

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
        outputs, d = self.shape
        number = 1 if pooled else self.rows.number
        squares = not pooled and outputs > 1 and 1 in self.weights and 2 not in self.weights
        dense = min(_DENSE, _DENSE_SQUARES) if squares else _DENSE
        if outputs * d > dense or number * (outputs * d) ** 2 > _HELD:
            return self._mean_blocks(head, diagonal=d > _SQUARE, pooled=pooled)
        moments = self._pair_moments(head, pooled=pooled)
        if outputs == 1:
            return moments[:, 0]
        K = len(moments)
        a, b = np.triu_indices(outputs, 1)
        H = np.zeros((K, outputs, outputs, d, d))
        H[:, a, b] = H[:, b, a] = -moments
        every = np.arange(outputs)
        H[:, every, every] = -H.sum(1)
        return H.transpose(0, 1, 3, 2, 4).reshape(K, outputs * d, outputs * d)

    def _pair_moments(self, head: Array, *, pooled: bool) -> Array:
        """Weighted second moments of the pairs of classes in each domain, or their mean, (K, q, d, d)."""
        spread = self._spreads.get(2)
        known = self._moments_at is not None and np.array_equal(self._moments_at, head)
        if isinstance(spread, HessianSpread) and known:
            return spread.derivatives.mean(0, keepdims=True) if pooled else spread.derivatives
        K = self.rows.number
        spread = HessianSpread(self.loss, 1 if pooled else K, self.shape[1])
        with _one_thread(self.shape[1]):
            for domain, _, X, u, state in self._states(head):
                spread.add(0 if pooled else domain, X, self.loss.coordinates(2, state), u / K if pooled else u)
        return spread.derivatives

    def _mean_blocks(self, head: Array, *, diagonal: bool, pooled: bool) -> Array:
        """Mean over the logits of the domains' Hessians' diagonal blocks, (K, d, d), or their diagonals (K, d)."""
        d, K = self.shape[1], self.rows.number
        number = 1 if pooled else K
        moments = np.zeros((number, d) if diagonal else (number, d, d))
        for domain, Y in self._roots(head):
            moments[0 if pooled else domain] += np.square(Y).sum(0) if diagonal else Y.T @ Y
        return moments / K if pooled else moments

    def _roots(self, head: Array) -> Iterator[tuple[int, Array]]:
        """Blocks of rows Y whose Y'Y add up to the mean diagonal block of their domain's Hessian."""
        for domain, _, X, u, state in self._states(head):
            # The trace of A is twice the sum over pairs of p_a p_b; of one logit it is the variance.
            traces = self.loss.coordinates(2, state).sum(1) * (1.0 if self.shape[0] == 1 else 2.0 / self.shape[0])
            yield domain, X * np.sqrt(u * traces)[:, None]

    def _curvature_and_spread(self, head: Array) -> tuple[Array, Array]:
        """Mean over domains of :meth:`curvatures`, and of the squares of their distances from it."""
        d, K = self.shape[1], self.rows.number
        if K * d**2 <= _HELD or d > _SQUARE:
            H = self.curvatures(head)
            mean: Array = H.mean(0)
            deviations = H - mean
            squares = np.matmul(deviations, deviations) if mean.ndim == 2 else deviations**2
            return mean, squares.mean(0)
        mean, total = np.zeros((d, d)), np.zeros((d, d))
        for _, blocks in groupby(self._roots(head), key=lambda block: block[0]):
            Y = np.concatenate([rows for _, rows in blocks])
            own = Y.T @ Y
            mean += own
            total += own @ own if len(Y) > d else Y.T @ (Y @ Y.T @ Y)
        mean /= K
        # What rounding may have made negative in the difference of squares.
        rounding = d * np.finfo(np.float64).eps * float(np.square(mean).sum())
        return mean, total / K - mean @ mean + rounding * np.eye(d)

    def _forward(self, head: Array) -> _Forward:
        """Loss and spreads; sets :attr:`scales`."""
        direct = {r: spread for r in self.weights if isinstance(spread := self._spreads[r], DirectSpread)}
        for spread in direct.values():
            spread.reset()
        total, energies, states = 0.0, dict.fromkeys(self.weights, 0.0), []
        with _one_thread(self.shape[1]):
            for domain, block, X, u, state in self._states(head):
                states.append(state)
                total += float(u @ state.losses)
                for r in self.weights:
                    S = self.loss.coordinates(r, state)
                    if r in direct:
                        direct[r].add(domain, X, S, u)
                    if self.scaling == "relative":
                        energies[r] += self._energy(r, block, S) / self.rows.number
        spreads, slopes = {}, {}
        for r in self.weights:
            chosen = self._spreads[r]
            if isinstance(chosen, DirectSpread):
                spreads[r] = chosen.spread()
            else:
                S = np.concatenate([self.loss.coordinates(r, state) for state in states])
                spreads[r], slopes[r] = chosen.spread(S)
        self.scales = {r: self._scale(r, energies[r]) for r in self.weights}
        self._moments_at = head.copy() if 2 in direct else None
        return _Forward(total, states, spreads, slopes)

    def _states(self, head: Array) -> Iterator[tuple[int, slice, Array, Array, LossState]]:
        W = head.reshape(self.shape)
        for chunk, blocks in self._chunks:
            whole = self.loss.state(self.rows.X[chunk] @ W.T, self.rows.targets[chunk])
            for domain, block in blocks:
                state = whole.take(slice(block.start - chunk.start, block.stop - chunk.start))
                yield domain, block, self.rows.X[block], self.rows.shares[block], state

    def _energy(self, order: int, block: slice, S: Array) -> float:
        weights = self.rows.shares[block] * self._lengths[block] ** order
        return float(np.einsum("b,bq,bq->", weights, S, self.loss.metric(order, S)))

    def _scale(self, order: int, energy: float) -> float:
        """Divisor of a term; infinite where energies underflow, so that 0/0 counts as 0."""
        classes, dimension = self.loss.classes, self.shape[1]
        if self.scaling == "relative":
            floor = max(1.0, float(self._lengths.max())) ** order * _TINY
            return energy if energy > floor else np.inf
        return float({"none": 1, "classes": classes**order, "parameters": (dimension * classes) ** 2}[self.scaling])


def _one_thread(dimension: int) -> AbstractContextManager[Any]:
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
