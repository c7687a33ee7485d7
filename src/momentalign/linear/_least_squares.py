r"""Least squares with gradients aligned across domains, from the domains' second moments.

The gradient of a domain's loss is W S_e − c_e', so with :math:`\Delta` for the distance from the domains' mean

.. math:: \Big(\bar S + \lambda I + \frac{2w}{s}\,\frac1K\sum_e \Delta S_e^2\Big) W^\top
          = \bar c + \frac{2w}{s}\,\frac1K\sum_e \Delta S_e\,\Delta c_e

is solved directly. Relative scaling divides by a quadratic of W: L-BFGS, on the moments as well. The Hessian of the
squared error is S_e whatever the head: on fixed features there is nothing in order 2 to align.

Legend: S_e (d, d) second moments, c_e (d, o) moments with the targets, W (o, d) head, the bias last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq

from momentalign._types import Array, Integers
from momentalign._validation import SCALINGS, check_choice, check_weight
from momentalign.linear._head import LinearHead
from momentalign.linear._path import check_l2s
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Preconditioner, Solution, solve, warn_if_stopped

_HELD = 2**25
"""Numbers in all domains' moments up to which they are held at once, 256 MiB; beyond, they are computed twice."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean over rows of xx', xy' and |y|², rows weighted."""

    S: Array
    c: Array
    t: float

    @classmethod
    def each(cls, rows: SortedRows, weights: Array) -> Iterator["Moments"]:
        """Moments of one domain after the other."""
        for part in rows.parts:
            u = np.sqrt(weights[part])[:, None]
            X, Y = rows.X[part] * u, rows.targets[part] * u
            yield cls(X.T @ X, X.T @ Y, float(np.vdot(Y, Y)))

    @classmethod
    def mean(cls, each: Iterator["Moments"]) -> "Moments":
        """Mean over domains, one in memory at a time."""
        first = next(each)
        S, c, t, number = first.S.copy(), first.c.copy(), first.t, 1
        for own in each:
            S += own.S
            c += own.c
            t, number = t + own.t, number + 1
        return cls(S / number, c / number, t / number)

    def squared_distance(self, other: "Moments") -> "Moments":
        """The quadratic |W ΔS − Δc'|² of W, with Δ for the difference of the two, as its moments."""
        dS, dc = self.S - other.S, self.c - other.c
        return Moments(dS @ dS, dS @ dc, float(np.square(dc).sum()))

    def loss(self, W: Array) -> float:
        """Mean of |Wx − y|²."""
        return float(np.vdot(W @ self.S, W) - 2.0 * np.vdot(W.T, self.c) + self.t)


class AlignedLeastSquares:
    """Value and gradient of the objective at a flattened head (o, d), at a cost that does not depend on n.

    Args:
        rows: Features, targets (n, o), shares.
        scaling: `"none"`, `"classes"` (o outputs count as C), `"parameters"` or `"relative"`.
    """

    def __init__(self, rows: SortedRows, *, scaling: str) -> None:
        o, d = self.shape = (rows.targets.shape[1], rows.X.shape[1])
        held = list(Moments.each(rows, rows.shares)) if rows.number * d**2 <= _HELD else None

        def each() -> Iterator[Moments]:
            return Moments.each(rows, rows.shares) if held is None else iter(held)

        self.rows, self.mean = rows, Moments.mean(each())
        self.relative = scaling == "relative"
        self.scale = float({"none": 1, "classes": o, "parameters": (d * o) ** 2, "relative": 1}[scaling])
        # The spread |W ΔS_e − Δc_e'|², averaged, is a quadratic of W like the loss.
        self.spread = Moments.mean(own.squared_distance(self.mean) for own in each())
        self._energy: Moments | None = None
        self.set_weights(0.0, 0.0)

    def set_weights(self, gradient_weight: float, l2: float) -> None:
        """Change the weights; the moments are not computed again."""
        self.weight = gradient_weight if self.rows.number > 1 else 0.0
        self.l2 = np.full(self.shape[1], l2)
        if self.rows.bias:
            self.l2[-1] = 0.0

    @property
    def energy(self) -> Moments | None:
        """Divisor of relative scaling, as a quadratic of W; None without it."""
        if not self.relative or not self.weight:
            return None
        if self._energy is None:
            self._energy = Moments.mean(Moments.each(self.rows, self.rows.shares * self.rows.lengths))
        return self._energy

    def __call__(self, head: Array) -> tuple[float, Array]:
        """Value and gradient."""
        W = head.reshape(self.shape)
        value = 0.5 * self.mean.loss(W) + 0.5 * float((self.l2 * W**2).sum())
        gradient = W @ self.mean.S - self.mean.c.T + self.l2 * W
        weight, spread = self.weight / self.scale, self.spread.loss(W)
        by_spread = 2.0 * (W @ self.spread.S - self.spread.c.T)
        moments = self.energy
        if moments is not None:
            energy = moments.loss(W)
            if energy <= 1e-13 * moments.t:  # an exact fit, but for rounding: 0/0 counts as 0
                return value, gradient.ravel()
            by_energy = 2.0 * (W @ moments.S - moments.c.T)
            by_spread = (by_spread - spread / energy * by_energy) / energy
            spread = spread / energy
        return value + weight * spread, (gradient + weight * by_spread).ravel()

    def curvature(self, weight: float) -> Array:
        """Matrix of the normal equations, (d, d), for a constant weight of the spread."""
        P: Array = self.mean.S + np.diag(self.l2) + 2.0 * weight * self.spread.S
        return P

    def solve(self, weight: float) -> Array:
        """Solve for a constant weight of the spread; the flattened head."""
        P = self.curvature(weight)
        right = self.mean.c + 2.0 * weight * self.spread.c
        # Scaled to unit diagonal, so that the rank does not depend on a column's unit of measurement.
        units = 1.0 / np.sqrt(np.maximum(P.diagonal(), np.finfo(float).tiny))
        solution: Array = lstsq(units[:, None] * P * units, units[:, None] * right, check_finite=False)[0]
        return (units[:, None] * solution).T.ravel()

    def fit(self, *, tol: float, max_iter: int) -> Solution:
        """Solve for the current weights: directly, or by L-BFGS where a quotient is minimised."""
        moments = self.energy
        if moments is None:
            head = self.solve(self.weight / self.scale)
            return Solution(head, self(head)[0], 1, True)
        start = self.solve(0.0)

        def coordinates(head: Array) -> Preconditioner:
            energy = max(moments.loss(head.reshape(self.shape)), np.finfo(float).tiny)
            return Preconditioner(self.curvature(self.weight / energy))

        # Targets have units, unlike probabilities: the tolerance is in those of the gradient at zero.
        size = max(float(np.abs(self(np.zeros_like(start))[1]).max()), np.finfo(float).tiny)
        solution = solve(self, start, coordinates, tol=tol * size, max_iter=max_iter)
        return solution._replace(iterations=solution.iterations + 1)


def fit_least_squares(
    features: NDArray[np.floating],
    targets: NDArray[np.floating],
    domains: Integers | None = None,
    gradient_weight: float = 0.0,
    **options: Any,
) -> LinearHead:
    r"""Fit a linear regression, ½‖Wx − y‖², with gradients aligned across domains.

    Args:
        features: Shape (n, d).
        targets: Real numbers, shape (n, o).
        domains: Any integers, shape (n,); None is one domain.
        gradient_weight: Weight of the gradients' spread.
        **options: Those of :func:`fit_least_squares_path`.

    Returns:
        The head, (o, d).

    Example:
        >>> head = fit_least_squares(np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]]), l2=0.0)
        >>> head.coef.round(6).item(), head.intercept.round(6).item()
        (2.0, 1.0)
    """
    return fit_least_squares_path(features, targets, domains, [gradient_weight], **options)[0]


def fit_least_squares_path(
    features: NDArray[np.floating],
    targets: NDArray[np.floating],
    domains: Integers | None,
    gradient_weights: Sequence[float],
    *,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float | Sequence[float] = 1e-3,
    scaling: str = "relative",
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> list[LinearHead]:
    r"""Fit a linear regression for every weight: the rows are read once, each weight costs a few products of d × d.

    Args:
        features: Shape (n, d).
        targets: Real numbers, shape (n, o).
        domains: Any integers, shape (n,); None is one domain.
        gradient_weights: Weights of the gradients' spread.
        sample_weight: Weight of each row in its domain's mean, shape (n,).
        l2: Weight of half the squared norm of the coefficients: one for all settings, or one for each.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`; all but the last are solved directly.
        bias: Whether the head has one.
        tol: Largest entry of the gradient at a solution, relative to that at zero; for relative scaling.
        max_iter: Maximum number of iterations, for relative scaling.

    Returns:
        A head (o, d) for each weight, in their order.

    Example:
        >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
        >>> [head.coef.round(2).item() for head in fit_least_squares_path(X, y, None, [0.0, 0.0], l2=[0.0, 1.0])]
        [2.0, 0.8]
    """
    check_choice("scaling", scaling, SCALINGS)
    weights = [check_weight("gradient_weight", weight) for weight in gradient_weights]
    l2s = check_l2s(l2, len(weights))
    rows = SortedRows.sort(features, targets.astype(np.float64), domains, sample_weight, bias=bias)
    objective = AlignedLeastSquares(rows, scaling=scaling)
    heads = []
    for weight, value in zip(weights, l2s, strict=True):
        objective.set_weights(weight, value)
        solution = objective.fit(tol=tol, max_iter=max_iter)
        heads.append(LinearHead.of(solution, objective.shape, bias=bias, order_weights={1: weight}))
    warn_if_stopped(all(head.converged for head in heads), max_iter)
    return heads
