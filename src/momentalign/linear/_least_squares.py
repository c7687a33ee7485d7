r"""Least squares with gradients aligned across domains, from the domains' second moments.

The gradient of a domain's loss is W S_e − c_e', so with :math:`\Delta` for the distance from the domains' mean

.. math:: \Big(\bar S + \lambda I + \frac{2w}{s}\,\frac1K\sum_e \Delta S_e^2\Big) W^\top
          = \bar c + \frac{2w}{s}\,\frac1K\sum_e \Delta S_e\,\Delta c_e

is solved directly. Relative scaling divides by a quadratic of W: L-BFGS, on the moments as well. The Hessian of the
squared error is S_e whatever the head: on fixed features there is nothing in order 2 to align.

Legend: A = [W, −I], so that A (x, y) is the residual; M_e (d + o, d + o) second moments of (x, y), with S_e (d, d) and
c_e (d, o) inside; a quadratic Q of W is tr(A Q Aᵀ); W (o, d) head, the bias last.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from scipy.linalg import lstsq

from momentalign._types import Array
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner, Solution, solve

_HELD = 2**25
"""Numbers in all domains' moments up to which they are held at once, 256 MiB; beyond, they are computed twice."""


def _moments(rows: SortedRows, weights: Array) -> Iterator[Array]:
    """M_e of one domain after the other, its rows weighted."""
    for part in rows.parts:
        Z = np.hstack([rows.X[part], rows.targets[part]]) * np.sqrt(weights[part])[:, None]
        yield Z.T @ Z


class AlignedLeastSquares:
    """Value and gradient of the objective at a flattened head (o, d), at a cost that does not depend on n.

    Args:
        rows: Features, targets (n, o), shares.
        scaling: `"none"`, `"classes"` (o outputs count as C), `"parameters"` or `"relative"`.
    """

    def __init__(self, rows: SortedRows, *, scaling: str) -> None:
        o, d = self.shape = (rows.targets.shape[1], rows.X.shape[1])
        self.rows = rows
        held = list(_moments(rows, rows.shares)) if rows.number * (d + o) ** 2 <= _HELD else None
        mean = self._mean(held or _moments(rows, rows.shares))
        # The mean of |W ΔS_e − Δc_e'|² is a quadratic of W like the loss.
        deviations = ((M - mean)[:, :d] for M in held or _moments(rows, rows.shares))
        self._quadratics = [mean, self._mean(D @ D.T for D in deviations)]
        self.relative = scaling == "relative" and rows.number > 1
        if self.relative:
            self._quadratics.append(self._mean(_moments(rows, rows.shares * rows.lengths)))
        self.scale = float({"none": 1, "classes": o, "parameters": (d * o) ** 2, "relative": 1}[scaling])
        self.set_weights(0.0, 0.0)

    def _mean(self, moments: Iterable[Array]) -> Array:
        """Mean over domains, one in memory at a time."""
        total: Array = np.zeros((sum(self.shape),) * 2)
        for M in moments:
            total += M
        return total / self.rows.number

    def set_weights(self, gradient_weight: float, l2: float) -> None:
        """Change the weights; the moments are not computed again."""
        self.weight = gradient_weight / self.scale if self.rows.number > 1 else 0.0
        self.l2 = np.full(self.shape[1], l2)
        if self.rows.bias:
            self.l2[-1] = 0.0

    @cached_property
    def _roots(self) -> list[Array]:
        """R with RᵀR = Q: the quotient of two |A Rᵀ|² keeps the digits that tr(A Q Aᵀ) loses near exact fits."""
        roots = []
        for Q in self._quadratics:
            units = np.sqrt(np.maximum(Q.diagonal(), np.finfo(float).tiny))
            values, vectors = np.linalg.eigh(Q / np.outer(units, units))
            roots.append(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * units)
        return roots

    def _quadratic(self, index: int, W: Array) -> tuple[float, Array]:
        """Value and gradient (o, d) of the mean loss, the spread or the energy."""
        A, d = np.hstack([W, -np.eye(len(W))]), self.shape[1]
        if not self.relative:
            by_A = A @ self._quadratics[index]
            return float(np.vdot(by_A, A)), 2.0 * by_A[:, :d]
        R = self._roots[index]
        by_root = A @ R.T
        return float(np.vdot(by_root, by_root)), 2.0 * by_root @ R[:, :d]

    def __call__(self, head: Array) -> tuple[float, Array]:
        """Value and gradient."""
        W = head.reshape(self.shape)
        loss, by_loss = self._quadratic(0, W)
        value = 0.5 * loss + 0.5 * float((self.l2 * W**2).sum())
        gradient = 0.5 * by_loss + self.l2 * W
        if not self.weight:
            return value, gradient.ravel()
        spread, by_spread = self._quadratic(1, W)
        if self.relative:
            energy, by_energy = self._quadratic(2, W)
            if energy <= 1e-13 * np.trace(self._quadratics[2][self.shape[1] :, self.shape[1] :]):
                return value, gradient.ravel()  # an exact fit, but for rounding: 0/0 counts as 0
            by_spread = (by_spread - spread / energy * by_energy) / energy
            spread = spread / energy
        return value + self.weight * spread, (gradient + self.weight * by_spread).ravel()

    def _normal_equations(self, weight: float) -> tuple[Array, Array]:
        """Matrix (d, d) and right side (d, o) for a constant weight of the spread."""
        d = self.shape[1]
        mean, spread = self._quadratics[:2]
        Q = mean[:d] + 2.0 * weight * spread[:d]
        return Q[:, :d] + np.diag(self.l2), Q[:, d:]

    def solve(self, weight: float) -> Array:
        """Solve for a constant weight of the spread; the flattened head."""
        P, right = self._normal_equations(weight)
        # Scaled to unit diagonal, so that the rank does not depend on a column's unit of measurement.
        units = 1.0 / np.sqrt(np.maximum(P.diagonal(), np.finfo(float).tiny))
        solution: Array = lstsq(units[:, None] * P * units, units[:, None] * right, check_finite=False)[0]
        return (units[:, None] * solution).T.ravel()

    def fit(self, *, tol: float, max_iter: int) -> Solution:
        """Solve for the current weights: directly, or by L-BFGS where a quotient is minimised."""
        if not (self.relative and self.weight):
            head = self.solve(self.weight)
            return Solution(head, self(head)[0], 1, True)
        start = self.solve(0.0)

        def coordinates(head: Array) -> Preconditioner:
            energy = max(self._quadratic(2, head.reshape(self.shape))[0], np.finfo(float).tiny)
            return Preconditioner(self._normal_equations(self.weight / energy)[0])

        # Targets have units, unlike probabilities: the tolerance is in those of the gradient at zero.
        size = max(float(np.abs(self(np.zeros_like(start))[1]).max()), np.finfo(float).tiny)
        solution = solve(self, start, coordinates, tol=tol * size, max_iter=max_iter)
        return solution._replace(iterations=solution.iterations + 1)
