r"""The objective of the CMA family in NumPy, without automatic differentiation.

.. math:: \frac1K\sum_e L_e + \frac{\lambda}{2}\|\mathrm{coef}\|^2
          + \sum_r w_r\,\frac{1}{s_r}\,\frac1K\sum_e\big\|\nabla^r L_e - \overline{\nabla^r L}\big\|^2

with L_e the mean loss of domain e, rows weighted by their shares. Memory: the sorted copy of the rows, blocks of them,
and a few numbers per row. Time of one evaluation at order 2: two passes of n·d² for each pair of classes.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from momentalign._types import Array
from momentalign.linear._losses import LossState
from momentalign.linear._objective import Objective, one_blas_thread
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner
from momentalign.linear._spreads import Spread, make_spread
from momentalign.penalties import term_name

_ORDERS = {term_name(order): order for order in (1, 2)}
_TINY = np.finfo(np.float64).tiny / np.finfo(np.float64).eps

_DENSE_SQUARES = 256
"""Parameters up to which curvature is one exact matrix where the squares of all domains' are needed as well."""


class AlignmentObjective(Objective):
    r"""Alignment of gradients and Hessians, in closed form.

    Two classes of the cross-entropy have one logit but are measured as two, so that the weights mean what they mean in
    :class:`momentalign.CMA`. Terms: `gradient`, `hessian`; those of weight 0 cost nothing.

    Args:
        rows: Features, class indices 0 … C − 1, shares.
        classes: Number of classes.
        l2: λ.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`.
    """

    def __init__(self, rows: SortedRows, classes: int, *, l2: float, scaling: str = "none") -> None:
        super().__init__(rows, classes, l2=l2)
        self.scaling = scaling
        self._lengths = rows.lengths if scaling == "relative" else np.empty(0)
        self._spreads: dict[str, Spread] = {}
        self._scales: dict[str, float] = {}

    def set_weights(self, weights: Mapping[str, float]) -> None:
        super().set_weights(weights if self.rows.number > 1 else {})  # one domain has nothing to align
        for name in self.weights.keys() - self._spreads.keys():
            self._spreads[name] = make_spread(_ORDERS[name], self.loss, self.rows)

    def terms(self, head: Array) -> dict[str, float]:
        return {name: term for name, term, _ in self._terms(self._state(head))}

    def _penalise(self, state: LossState) -> tuple[float, Array]:
        value, by_logits = 0.0, np.zeros_like(state.residuals)
        for name, term, T in self._terms(state):
            value += self.weights[name] * term
            by_logits += self.loss.pullback(_ORDERS[name], state, self.weights[name] * T)
        return value, by_logits

    def _terms(self, state: LossState) -> Iterator[tuple[str, float, Array]]:
        """Names of the terms, the terms, and their derivatives by the coordinates (n, q); sets the scales."""
        classes, dimension = self.loss.classes, self.shape[1]
        for name in self.weights:
            r = _ORDERS[name]
            S = self.loss.coordinates(r, state)
            spread, T = self._spreads[name](S)
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
            self._scales[name] = scale
            yield name, spread / scale, T / scale

    def coordinates(self, head: Array) -> Preconditioner:
        r"""Gauss-Newton coordinates, :math:`\bar H + \lambda I + 2\frac{w_1}{s_1}\frac1K\sum_e (H_e - \bar H)^2`."""
        if "gradient" not in self.weights:
            return super().coordinates(head)
        mean, squares, (outputs, d), K = np.zeros(()), np.zeros(()), self.shape, self.rows.number
        with one_blas_thread(d):
            S = self._pair_weights(head, _DENSE_SQUARES)
            for part in self.rows.parts:
                X, own = self.rows.X[part], S[part]
                H = self._hessian(X, own)
                if H.ndim == 1:
                    square = H**2
                elif len(X) > d or len(H) > d:
                    square = H @ H
                else:
                    Y = X * np.sqrt(own)
                    square = Y.T @ (Y @ Y.T @ Y)
                mean, squares = mean + H / K, squares + square / K
        # What rounding may have made negative in the difference of squares.
        rounding = len(mean) * np.finfo(np.float64).eps * float(np.square(mean).sum())
        matrix = mean.ndim == 2
        spread = squares - (mean @ mean if matrix else mean**2) + rounding * (np.eye(len(mean)) if matrix else 1.0)
        units = float(self.loss.metric(1, np.ones(outputs))[0])
        return self._precondition(mean, 2.0 * units * self.weights["gradient"] / self._scales["gradient"] * spread)
