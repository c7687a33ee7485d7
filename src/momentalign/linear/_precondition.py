r"""Coordinates in which the objective is nearly round, so that L-BFGS needs few steps.

The Gauss–Newton curvature at a point, :math:`\bar H + \lambda I + 2\frac{w_1}{s_1}\frac1K\sum_e (H_e - \bar H)^2`, is
known once the domains' Hessians H_e are, and those are at hand where order 2 is aligned. With its Cholesky factor,
P = R'R, the solver moves in R·head. Exact for heads of up to 1,024 numbers; beyond that one d×d matrix, the mean of the
diagonal blocks, serves all logits, and beyond 4,096 features its diagonal.
"""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from momentalign.linear._objective import PenalisedObjective
from momentalign.linear._rows import Array

_DENSE, _SQUARE = 1024, 4096


class Preconditioner:
    """The change of coordinates to R·head with R'R = P.

    Args:
        P: Curvature: a matrix over the flattened head, or over the features, to serve all logits; or a diagonal.
    """

    def __init__(self, P: Array) -> None:
        # Constant columns have no curvature without L2: a little keeps R regular, and their gradient is 0.
        least = 1e-10 * float((P if P.ndim == 1 else P.diagonal()).mean()) + np.finfo(float).tiny
        self._R: Array = np.sqrt(P + least) if P.ndim == 1 else cholesky(P + least * np.eye(len(P)))

    def back(self, point: Array, *, gradient: bool = False) -> Array:
        """The head of a point; or of a gradient by the head, that by the point."""
        V = point.reshape(-1, len(self._R))
        if self._R.ndim == 1:
            return np.divide(V, self._R).ravel()
        solved: Array = solve_triangular(self._R, V.T, trans=int(gradient), check_finite=False)
        return solved.T.ravel()


def gauss_newton(objective: PenalisedObjective, head: Array) -> Preconditioner:
    """Coordinates for an objective, from its curvature at the head that it was evaluated at last."""
    H = domain_curvatures(objective, head)
    mean = H.mean(0)
    P = mean + _l2(objective, len(mean), mean.ndim)
    if objective.weights.get(1):
        units = objective.loss.metric(1, np.ones(objective.loss.width(1)))[0]
        deviations = H - mean
        squares = np.matmul(deviations, deviations) if mean.ndim == 2 else deviations**2
        P = P + 2.0 * units * objective.weights[1] / objective.scales[1] * squares.mean(0)
    C, d = objective.shape
    if C > 1 and mean.shape == (C * d, C * d):
        # Adding one vector to all logits' heads changes no probability: no curvature there, and no step goes there.
        P = P + np.kron(np.full((C, C), 1.0 / C), np.eye(d) * (np.trace(mean) / len(mean)))
    return Preconditioner(P)


def domain_curvatures(objective: PenalisedObjective, head: Array) -> Array:
    """Hessians of the domains' losses, (K, od, od); mean diagonal blocks (K, d, d), or (K, d), for large heads."""
    outputs, d = objective.shape
    if outputs * d <= _DENSE:
        return _dense(objective.pair_moments(head), outputs)
    return objective.mean_moments(head, diagonal=d > _SQUARE)


def _dense(moments: Array, outputs: int) -> Array:
    """Hessians over the flattened head, (K, od, od), from the pairs' moments (K, q, d, d)."""
    if outputs == 1:
        return moments[:, 0]
    K, _, d, _ = moments.shape
    a, b = np.triu_indices(outputs, 1)
    H = np.zeros((K, outputs, outputs, d, d))
    H[:, a, b] = H[:, b, a] = -moments
    every = np.arange(outputs)
    H[:, every, every] = -H.sum(1)
    return H.transpose(0, 1, 3, 2, 4).reshape(K, outputs * d, outputs * d)


def _l2(objective: PenalisedObjective, size: int, axes: int) -> Array:
    """The L2 term's curvature; none along the bias."""
    diagonal = np.full((size // objective.shape[1], objective.shape[1]), objective.l2)
    if objective.rows.bias:
        diagonal[:, -1] = 0.0
    return np.diag(diagonal.ravel()) if axes == 2 else diagonal.ravel()
