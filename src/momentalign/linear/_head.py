"""A fitted linear head, and its calibration by one number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax

from momentalign._types import Array, Integers
from momentalign.linear._rows import SortedRows
from momentalign.linear._solver import Solution

_LEAST, _MOST = 1e-3, 1e3


@dataclass(frozen=True, eq=False)
class LinearHead:
    """A fitted head.

    Attributes:
        coef: Shape (C, d), (1, d) for two classes.
        intercept: Shape (C,) or (1,); zeros where the head has none.
        objective: Value of the penalised objective; of SGD the mean loss of the last epoch.
        n_iter: Iterations of the solver, those without penalties included; steps of SGD.
        converged: Whether the gradient came below the tolerance, or the objective as low as float64 can tell. SGD has
            no tolerance: whether its losses stayed finite.
    """

    coef: Array
    intercept: Array
    objective: float
    n_iter: int
    converged: bool

    @classmethod
    def of(cls, solution: Solution, shape: tuple[int, int], *, bias: bool) -> "LinearHead":
        """Split a solution of `shape` into coefficients and intercepts, the last column."""
        W = solution.head.reshape(shape)
        coef, intercept = (W[:, :-1], W[:, -1]) if bias else (W, np.zeros(len(W)))
        return cls(coef.copy(), intercept.copy(), *solution[1:])

    @classmethod
    def mean(cls, heads: "Sequence[LinearHead]") -> "LinearHead":
        """Mean of heads, which has no objective of its own."""
        coef, intercept = (np.mean([getattr(head, name) for head in heads], axis=0) for name in ("coef", "intercept"))
        return cls(coef, intercept, np.nan, max(head.n_iter for head in heads), all(head.converged for head in heads))

    def logits(self, features: NDArray[np.floating]) -> Array:
        """Logits of all classes, shape (n, C); of two classes the first has logit 0."""
        logits: Array = features @ self.coef.T + self.intercept
        return np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits

    def predict(self, features: NDArray[np.floating]) -> NDArray[np.int64]:
        """Most likely class of each row, shape (n,)."""
        classes: NDArray[np.int64] = self.logits(features).argmax(1)
        return classes


def rescale(
    head: LinearHead,
    features: NDArray[np.floating],
    targets: Integers,
    domains: Integers | None = None,
    *,
    sample_weight: NDArray[np.floating] | None = None,
    l2: float = 1e-3,
) -> tuple[LinearHead, float]:
    r"""Multiply a head by the number that minimises the objective without penalties.

    Penalties shrink when a head grows: once most rows are classified with certainty, few residuals are left and their
    means differ little. An aligned head is therefore too long for the loss, and its probabilities are overconfident.
    For the minimiser of the unpenalised objective the number is 1. Predicted classes do not change.

    Args:
        head: Fitted with the same rows.
        features: Shape (n, d).
        targets: Class indices 0 … C − 1, shape (n,).
        domains: Any integers, shape (n,); None is one domain.
        sample_weight: Weight of each row in its domain's mean, shape (n,).
        l2: Weight of half the squared norm of the coefficients.

    Returns:
        The rescaled head, and the number, between 0.001 and 1000.

    Example:
        >>> features, targets = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
        >>> head = LinearHead(np.array([[100.0]]), np.array([-150.0]), 0.0, 0, True)
        >>> rescale(head, features, targets)[0].coef.round(2).item()
        0.9
    """
    rows = SortedRows.sort(features, targets, domains, sample_weight, bias=False)
    Z = head.logits(rows.X)
    shares, true = rows.shares / rows.number, Z[np.arange(len(Z)), rows.targets]
    curvature = l2 * float(np.vdot(head.coef, head.coef))

    def slope(scale: float) -> float:
        """Derivative of the objective by the scale, which is increasing."""
        means: Array = (softmax(scale * Z, axis=1) * Z).sum(1)
        return float(shares @ (means - true)) + curvature * scale

    scale = _MOST
    if slope(_LEAST) >= 0:
        scale = _LEAST  # a head that is worse than none
    elif slope(_MOST) > 0:
        scale = math.exp(brentq(lambda logarithm: slope(math.exp(logarithm)), math.log(_LEAST), math.log(_MOST)))
    return replace(head, coef=head.coef * scale, intercept=head.intercept * scale), scale
