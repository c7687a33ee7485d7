r"""The penalised objective of a linear classifier and its gradient, full batch, without automatic differentiation.

.. math:: \frac1K\sum_e L_e + \frac{\lambda}{2}\|\mathrm{coef}\|^2
          + \sum_r w_r\,\frac{1}{s_r}\,\frac1K\sum_e\big\|\nabla^r L_e - \overline{\nabla^r L}\big\|^2

with L_e the mean loss of domain e, rows weighted by their shares. Memory: the sorted copy of the rows, blocks of them,
and a few numbers a row. Time of one evaluation at order 2: two passes of n·d² for each pair of classes.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from momentalign.linear._direct import DIRECT, DirectHessians, DirectTerm
from momentalign.linear._kernel import LARGEST, KernelTerm
from momentalign.linear._losses import BinaryLoss, Loss, SoftmaxLoss, State
from momentalign.linear._rows import Array, Rows
from momentalign.linear._threads import one_thread

_TINY = np.finfo(np.float64).tiny / np.finfo(np.float64).eps


class PenalisedObjective:
    r"""Domains' mean loss, L2 and alignment penalties as a function of the flattened head.

    The head is (o, d), d counting the bias as its last column: o = C logits, or one for two classes, the difference of
    their logits. Two classes of the cross-entropy are measured as two logits all the same, so that the weights mean
    what they mean in :class:`momentalign.CMA`.

    Args:
        rows: Features, class indices 0 … C − 1, shares.
        classes: C.
        order_weights: Weight of each order, 1 to 3; orders of weight 0 cost nothing.
        l2: λ; the bias is not penalised.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`.
        loss: `"cross_entropy"`, or `"logistic"`: two classes measured as one logit.
    """

    def __init__(
        self,
        rows: Rows,
        classes: int,
        order_weights: Mapping[int, float],
        *,
        l2: float,
        scaling: str = "none",
        loss: str = "cross_entropy",
    ) -> None:
        self.rows, self.l2, self.scaling = rows, l2, scaling
        self.loss: Loss = (
            SoftmaxLoss(classes) if classes > 2 else BinaryLoss(classes=2 if loss == "cross_entropy" else 1)
        )
        self.shape = (self.loss.outputs, rows.X.shape[1])
        self._blocks = list(rows.blocks())
        self._lengths = rows.lengths if scaling == "relative" else np.empty(0)
        self._terms: dict[int, DirectTerm | KernelTerm] = {}
        self.scales: dict[int, float] = {}
        self._moments_at: Array | None = None
        self.set_weights(order_weights)

    def set_weights(self, order_weights: Mapping[int, float]) -> None:
        """Change the weights; what has been set up for an order stays."""
        one = self.rows.number == 1  # nothing to align
        self.weights = {order: weight for order, weight in order_weights.items() if weight and not one}
        for order in self.weights:
            if order not in self._terms:
                self._terms[order] = make_term(order, self.loss, self.rows)

    def __call__(self, head: Array) -> tuple[float, Array]:
        """Value and gradient at a flattened head."""
        W, K = head.reshape(self.shape), self.rows.number
        direct = {r: term for r in self.weights if isinstance(term := self._terms[r], DirectTerm)}
        for term in direct.values():
            term.reset()
        total, energies, states = 0.0, dict.fromkeys(self.weights, 0.0), []
        with one_thread(self.shape[1]):
            for domain, block, X, u, state in self._states(head):
                states.append(state)
                total += float(u @ state.losses)
                for r in self.weights:
                    S = self.loss.coordinates(r, state)
                    if r in direct:
                        direct[r].add(domain, X, S, u)
                    if self.scaling == "relative":
                        energies[r] += self._energy(r, block, S) / K
        kernel = {r: self._kernel_spread(r, states) for r in self.weights if r not in direct}
        spreads = {r: direct[r].spread() if r in direct else kernel[r][0] for r in self.weights}
        scales = self.scales = {r: self._scale(r, energies[r]) for r in self.weights}
        self._moments_at = head.copy() if 2 in direct else None

        penalised = W[:, :-1] if self.rows.bias else W
        value = total / K + 0.5 * self.l2 * float(np.vdot(penalised, penalised))
        value += sum(w * spreads[r] / scales[r] for r, w in self.weights.items())

        gradient = self.l2 * W
        if self.rows.bias:
            gradient[:, -1] = 0.0
        with one_thread(self.shape[1]):
            for (domain, block), state in zip(self._blocks, states, strict=True):
                X, u = self.rows.X[block], self.rows.shares[block]
                by_logits = state.residuals * (u / K)[:, None]
                for r, weight in self.weights.items():
                    T = direct[r].pull(domain, X) * u[:, None] if r in direct else kernel[r][1][block]
                    if self.scaling == "relative" and np.isfinite(scales[r]):
                        S = self.loss.coordinates(r, state)
                        share = (2.0 / K * spreads[r] / scales[r]) * u * self._lengths[block] ** r
                        T = T - share[:, None] * self.loss.metric(r, S)
                    by_logits += self.loss.pullback(r, state, T * (weight / scales[r]))
                gradient += by_logits.T @ X
        return value, gradient.ravel()

    def pair_moments(self, head: Array) -> Array:
        """Weighted second moments of the pairs of classes in each domain, (K, q, d, d)."""
        term = self._terms.get(2)
        if isinstance(term, DirectHessians) and self._moments_at is not None and np.array_equal(self._moments_at, head):
            return term.derivatives
        term = DirectHessians(self.loss, self.rows.number, self.shape[1])
        with one_thread(self.shape[1]):
            for domain, _, X, u, state in self._states(head):
                term.add(domain, X, self.loss.coordinates(2, state), u)
        return term.derivatives

    def mean_moments(self, head: Array, *, diagonal: bool) -> Array:
        """Mean over the logits of the domains' Hessians' diagonal blocks, (K, d, d), or their diagonals (K, d)."""
        d = self.shape[1]
        moments = np.zeros((self.rows.number, d) if diagonal else (self.rows.number, d, d))
        for domain, _, X, u, state in self._states(head):
            # The trace of A is twice the sum over pairs of p_a p_b; of one logit it is the variance.
            traces = self.loss.coordinates(2, state).sum(1) * (1.0 if self.shape[0] == 1 else 2.0 / self.shape[0])
            Y = X * np.sqrt(u * traces)[:, None]
            moments[domain] += np.square(Y).sum(0) if diagonal else Y.T @ Y
        return moments

    def subset(self, size: int) -> "PenalisedObjective | None":
        """The objective without penalties on every k-th row of each domain; None where k would be below 4."""
        step = len(self.rows.X) // size
        if step < 4:
            return None
        classes = max(self.loss.classes, 2)
        return PenalisedObjective(self.rows.thinned(step), classes, {}, l2=self.l2)

    def _states(self, head: Array) -> Iterator[tuple[int, slice, Array, Array, State]]:
        W = head.reshape(self.shape)
        for domain, block in self._blocks:
            X = self.rows.X[block]
            yield domain, block, X, self.rows.shares[block], self.loss.state(X @ W.T, self.rows.targets[block])

    def _energy(self, order: int, block: slice, S: Array) -> float:
        weights = self.rows.shares[block] * self._lengths[block] ** order
        return float(np.einsum("b,bq,bq->", weights, S, self.loss.metric(order, S)))

    def _scale(self, order: int, energy: float) -> float:
        """What divides a term; infinite where energies underflow, so that 0/0 counts as 0."""
        classes, dimension = self.loss.classes, self.shape[1]
        if self.scaling == "relative":
            floor = max(1.0, float(self._lengths.max())) ** order * _TINY
            return energy if energy > floor else np.inf
        return float({"none": 1, "classes": classes**order, "parameters": (dimension * classes) ** 2}[self.scaling])

    def _kernel_spread(self, order: int, states: list[State]) -> tuple[float, Array]:
        term = self._terms[order]
        assert isinstance(term, KernelTerm)
        return term.spread(np.concatenate([self.loss.coordinates(order, state) for state in states]))


def make_term(order: int, loss: Loss, rows: Rows) -> DirectTerm | KernelTerm:
    """The cheaper way to an order.

    Args:
        order: 1 to 3.
        loss: Of the fit.
        rows: Of the fit.

    Returns:
        The term.

    Raises:
        ValueError: Order 3 of too many rows.
    """
    (n, d), q = rows.X.shape, loss.width(order)
    if order == 1:
        return DIRECT[1](loss, rows.number, d)
    if order == 2:
        # Flops; a product with few columns waits for memory, as if it had eight.
        direct, kernel = 3 * n * d**2 * q, 2 * n**2 * max(q, 8)
        if direct <= kernel or n**2 > LARGEST:
            return DIRECT[2](loss, rows.number, d)
        return KernelTerm(order, loss, rows)
    if n**2 > LARGEST or n * q > LARGEST:
        raise ValueError(
            f"Alignment of order 3 takes up to {int(LARGEST**0.5)} rows, and {LARGEST} rows times coordinates, but "
            f"there are {n} rows of {q} coordinates. Use fewer rows or classes, or orders 1 and 2."
        )
    return KernelTerm(order, loss, rows)
