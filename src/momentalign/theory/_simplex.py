"""The point of a convex hull that is next to the origin: a quadratic program over the simplex, from inner products."""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from momentalign.theory._inputs import Floats


class Combination(NamedTuple):
    """Weights on the simplex and the norm of the combination they give."""

    weights: Floats
    norm: float


def smallest_combination(gram: Any) -> Combination:
    r"""Minimise :math:`\|\sum_e a_e v_e\|` over the simplex, for vectors known by their inner products.

    For convex losses 0 in the hull of the domains' gradients is weak Pareto optimality. With a root A of the Gram
    matrix this is non-negative least squares: :math:`\min_{u \ge 0} \|Au\|^2 + (\mathbf 1^\top u - 1)^2` has its
    minimum on the ray of the answer, because over a ray it is increasing in :math:`\|Aa\|^2`. Inner products hold
    squares, so a norm below 1e-8 of the vectors' is zero to rounding.

    Args:
        gram: Inner products of the K vectors, shape (K, K).

    Returns:
        Weights (K,) that sum to one, and the norm.

    Example:
        >>> weights, norm = smallest_combination([[1.0, -2.0], [-2.0, 4.0]])  # v and −2v: 2/3 and 1/3 cancel
        >>> weights.round(6), round(norm, 6)
        (array([0.666667, 0.333333]), 0.0)
    """
    matrix = np.asarray(gram, dtype=np.float64)
    matrix = (matrix + matrix.T) / 2
    scale = float(np.trace(matrix)) / len(matrix)
    if scale <= 0:
        return Combination(np.full(len(matrix), 1 / len(matrix)), 0.0)
    values, vectors = np.linalg.eigh(matrix / scale)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T
    solution, _ = nnls(np.vstack([root, np.ones(len(matrix))]), np.append(np.zeros(len(matrix)), 1.0))
    weights: Floats = solution / solution.sum()
    return Combination(weights, max(float(weights @ matrix @ weights), 0.0) ** 0.5)
