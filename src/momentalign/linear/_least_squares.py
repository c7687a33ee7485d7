r"""Least squares with gradients aligned across domains, from the domains' second moments alone.

The gradient of a domain's loss is W S_e − c_e', so with :math:`\Delta` for the distance from the domains' mean

.. math:: \Big(\bar S + \lambda I + \frac{2w}{s}\,\frac1K\sum_e \Delta S_e^2\Big) W^\top
          = \bar c + \frac{2w}{s}\,\frac1K\sum_e \Delta S_e\,\Delta c_e

solves the problem directly. Relative scaling divides by a quadratic of W: L-BFGS, on the moments as well. The Hessian
of the squared error is S_e whatever the head: on fixed features there is nothing in order 2 to align.

Legend: S (K, d, d) second moments, c (K, d, o) moments with the targets, W (o, d) head, the bias last.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq

from momentalign._validation import SCALINGS, check_choice, check_weight
from momentalign.linear._path import LinearHead
from momentalign.linear._precondition import Preconditioner
from momentalign.linear._rows import Array, Integers, Rows
from momentalign.linear._solver import minimise, warn_if_stopped


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean over rows of xx', xy' and |y|², rows weighted; the first axis is the domain where there is one."""

    S: Array
    c: Array
    t: Array

    @classmethod
    def of(cls, rows: Rows, weights: Array) -> "Moments":
        """Moments of each domain, (K, …)."""
        d, o, K = rows.X.shape[1], rows.targets.shape[1], rows.number
        S, c, t = np.zeros((K, d, d)), np.zeros((K, d, o)), np.zeros(K)
        for domain, block in rows.blocks():
            X, Y, u = rows.X[block], rows.targets[block], np.sqrt(weights[block])[:, None]
            X, Y = X * u, Y * u
            S[domain] += X.T @ X
            c[domain] += X.T @ Y
            t[domain] += np.vdot(Y, Y)
        return cls(S, c, t)

    def mean(self) -> "Moments":
        """Mean over domains."""
        return Moments(self.S.mean(0), self.c.mean(0), self.t.mean(0))

    def loss(self, W: Array) -> float:
        """Mean of |Wx − y|²."""
        return float(np.vdot(W @ self.S, W) - 2.0 * np.vdot(W.T, self.c) + self.t)


class AlignedLeastSquares:
    """Value and gradient of the objective at a flattened head (o, d), at a cost that does not depend on n.

    Args:
        rows: Features, targets (n, o), shares.
        gradient_weight: Weight of the gradients' spread.
        l2: Weight of half the squared norm of the coefficients.
        scaling: `"none"`, `"classes"` (o outputs count as C), `"parameters"` or `"relative"`.
    """

    def __init__(self, rows: Rows, gradient_weight: float, *, l2: float, scaling: str) -> None:
        each = Moments.of(rows, rows.shares)
        self.mean = each.mean()
        o, d = self.shape = (rows.targets.shape[1], rows.X.shape[1])
        self.weight = gradient_weight if rows.number > 1 else 0.0
        self.scale = float({"none": 1, "classes": o, "parameters": (d * o) ** 2, "relative": 1}[scaling])
        self.l2 = np.full(d, l2)
        if rows.bias:
            self.l2[-1] = 0.0
        dS, dc = each.S - self.mean.S, each.c - self.mean.c
        # The spread |W ΔS_e − Δc_e'|², averaged, is a quadratic of W like the loss.
        self.spread = Moments(
            np.matmul(dS, dS).mean(0), np.matmul(dS, dc).mean(0), np.asarray(np.square(dc).sum((1, 2)).mean())
        )
        relative = scaling == "relative" and self.weight > 0
        self.energy = Moments.of(rows, rows.shares * rows.lengths).mean() if relative else None

    def __call__(self, head: Array) -> tuple[float, Array]:
        """Value and gradient."""
        W = head.reshape(self.shape)
        value = 0.5 * self.mean.loss(W) + 0.5 * float((self.l2 * W**2).sum())
        gradient = W @ self.mean.S - self.mean.c.T + self.l2 * W
        weight, spread = self.weight / self.scale, self.spread.loss(W)
        by_spread = 2.0 * (W @ self.spread.S - self.spread.c.T)
        if self.energy is not None:
            energy = self.energy.loss(W)
            if energy <= 1e-13 * float(self.energy.t):  # an exact fit, but for rounding: 0/0 counts as 0
                return value, gradient.ravel()
            by_energy = 2.0 * (W @ self.energy.S - self.energy.c.T)
            by_spread = (by_spread - spread / energy * by_energy) / energy
            spread = spread / energy
        return value + weight * spread, (gradient + weight * by_spread).ravel()

    def curvature(self, scale: float) -> Array:
        """Matrix of the normal equations, (d, d), the spread divided by `scale`."""
        P: Array = self.mean.S + np.diag(self.l2) + 2.0 * self.weight / scale * self.spread.S
        return P

    def solve(self, weight: float) -> Array:
        """Solution for a constant weight of the spread, flattened."""
        P = self.mean.S + np.diag(self.l2) + 2.0 * weight * self.spread.S
        right = self.mean.c + 2.0 * weight * self.spread.c
        # To unit diagonal, so that a column's unit of measurement does not decide what counts as zero.
        units = 1.0 / np.sqrt(np.maximum(P.diagonal(), np.finfo(float).tiny))
        solution: Array = lstsq(units[:, None] * P * units, units[:, None] * right, check_finite=False)[0]
        return (units[:, None] * solution).T.ravel()


def fit_least_squares(
    features: NDArray[np.floating],
    targets: NDArray[np.floating],
    domains: Integers | None = None,
    gradient_weight: float = 0.0,
    *,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float = 1e-3,
    scaling: str = "relative",
    bias: bool = True,
    tol: float = 1e-4,
    max_iter: int = 1000,
) -> LinearHead:
    r"""Fit a linear regression, ½‖Wx − y‖², with gradients aligned across domains.

    Args:
        features: Shape (n, d).
        targets: Real numbers, shape (n, o).
        domains: Where each row came from: any integers, shape (n,); None is one domain.
        gradient_weight: Weight of the gradients' spread.
        sample_weight: Weight of each row in its domain's mean, shape (n,).
        l2: Weight of half the squared norm of the coefficients.
        scaling: `"none"`, `"classes"`, `"parameters"` or `"relative"`; all but the last are solved directly.
        bias: Whether the head has one.
        tol: Largest entry of the gradient at the solution, relative to that at zero; for relative scaling.
        max_iter: Most iterations, for relative scaling.

    Returns:
        The head, (o, d).

    Example:
        >>> head = fit_least_squares(np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]]), l2=0.0)
        >>> head.coef.round(6).item(), head.intercept.round(6).item()
        (2.0, 1.0)
    """
    check_choice("scaling", scaling, SCALINGS)
    rows = Rows.sort(features, targets.astype(np.float64), domains, sample_weight, bias=bias)
    weight = check_weight("gradient_weight", gradient_weight)
    objective = AlignedLeastSquares(rows, weight, l2=check_weight("l2", l2), scaling=scaling)
    iterations, converged = 1, True
    if objective.energy is None:
        head = objective.solve(objective.weight / objective.scale)
    else:
        start = objective.solve(0.0)
        energy = max(objective.energy.loss(start.reshape(objective.shape)), np.finfo(float).tiny)
        # Targets have units, unlike probabilities: the tolerance is in those of the gradient at zero.
        size = float(np.abs(objective(np.zeros_like(start))[1]).max())
        solution = minimise(
            objective,
            start,
            lambda _: Preconditioner(objective.curvature(energy)),
            tol=tol * max(size, np.finfo(float).tiny),
            max_iter=max_iter,
        )
        head, iterations, converged = solution.head, solution.iterations + 1, solution.converged
        warn_if_stopped(converged, max_iter)
    W = head.reshape(objective.shape)
    coef, intercept = (W[:, :-1], W[:, -1]) if bias else (W, np.zeros(len(W)))
    value = objective(head)[0]
    return LinearHead(coef.copy(), intercept.copy(), {1: weight}, value, iterations, converged)
