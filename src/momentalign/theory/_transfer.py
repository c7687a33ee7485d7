"""Transfer measures between all pairs of domains, over a ball of heads."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentalign._validation import check_choice, check_count
from momentalign.closed_form import HEADS
from momentalign.theory._ascent import Ball, largest_difference
from momentalign.theory._inputs import Floats, check_positive
from momentalign.theory._losses import DomainLosses
from momentalign.theory._newton import domain_minimizers, mixture_minimizer
from momentalign.theory._trust_region import largest_quadratic


@dataclass(frozen=True, eq=False)
class TransferMeasures:
    """Transfer measures with the source in rows and the target in columns, zero on the diagonal.

    Attributes:
        names: Of the domains.
        one_sided: T(i‖j), the supremum over the ball of L_j − L_j* − (L_i − L_i*); shape (K, K).
        symmetric: The larger of both directions; shape (K, K).
        realizable: The supremum of `abs(L_i − L_j)`; shape (K, K).
        minima: L_e*, each domain's smallest loss over all heads; shape (K,).
        radius: Of the ball.
        exact: True for quadratics in closed form; False where an ascent found the suprema, which makes every entry a
            lower estimate.
    """

    names: tuple[str, ...]
    one_sided: Floats
    symmetric: Floats
    realizable: Floats
    minima: Floats
    radius: float
    exact: bool

    @property
    def worst_pair(self) -> tuple[str, str]:
        """Source and target with the largest one-sided measure."""
        source, target = largest_pair(self.one_sided)
        return self.names[source], self.names[target]


def transfer_measures(
    losses: DomainLosses,
    center: Any,
    radius: float,
    *,
    method: str = "auto",
    restarts: int = 8,
    seed: int = 0,
    minimizers: list[Tensor] | None = None,
    progress: Callable[[float], None] | None = None,
) -> TransferMeasures:
    r"""Transfer measures between all pairs over the ball :math:`\|\theta - \theta^*\| \le` radius.

    The L2 terms of two domains cancel, so all three measures come from the largest values of
    :math:`L_j - L_i` on the ball. For squared error that is a quadratic whose maximum has a closed form
    (a trust-region subproblem). Otherwise projected ascent starts from the centre, from both domains' own optima and
    from random points of the sphere; a supremum found so can only be too small.

    Args:
        losses: The domains' losses.
        center: Head in the middle of the ball, shape (C, D); the bounds want :func:`pareto_point`'s.
        radius: √δ, above zero.
        method: `"auto"` is `"closed_form"` for squared error and `"ascent"` otherwise.
        restarts: Random starts of the ascent.
        seed: Of the random starts.
        minimizers: The domains' own optimal heads where they are known; they are computed otherwise.
        progress: Called after each pair with the share of the pairs that is done.

    Returns:
        The measures.

    Example:
        >>> X, domains = np.array([[1.0], [2.0]]), ["a", "b"]
        >>> losses = DomainLosses(X, [0.0, 0.0], domains, loss="squared_error", bias=False)
        >>> transfer_measures(losses, [[0.0]], radius=1.0).one_sided  # ½(4 − 1) at θ = ±1, and 0 at θ = 0
        array([[0. , 1.5],
               [0. , 0. ]])
    """
    radius = check_positive("radius", radius, "It is √δ, the largest distance of a head from the centre.")
    check_count("restarts", restarts, 0)
    quadratic = losses.loss == "squared_error"
    check_choice("method", method, ("auto", "closed_form", "ascent"))
    if method == "closed_form" and not quadratic:
        raise ValueError(
            f"method='closed_form' is for loss 'squared_error', but the loss is '{losses.loss}'. Use 'ascent'."
        )
    exact = quadratic and method != "ascent"
    ball = Ball(losses.as_head(center), radius)
    heads = domain_minimizers(losses) if minimizers is None else minimizers
    minima = np.array([losses.values(head)[e] for e, head in enumerate(heads)])
    number = len(losses)
    largest = np.zeros((number, number))
    basis = torch.eye(number, dtype=torch.float64)
    pairs = list(permutations(range(number), 2))
    for done, (i, j) in enumerate(pairs, 1):
        starts = ball.starts([heads[i], heads[j]], restarts, seed)
        largest[i, j] = supremum(losses, basis[j] - basis[i], ball, starts, exact)
        if progress is not None:
            progress(done / len(pairs))
    one_sided = largest - (minima[None, :] - minima[:, None])
    np.fill_diagonal(one_sided, 0.0)
    return TransferMeasures(
        losses.names,
        one_sided,
        np.maximum(one_sided, one_sided.T),
        np.maximum(largest, largest.T),
        minima,
        radius,
        exact,
    )


def mixture_transfer(
    losses: DomainLosses, source: Any, target: Any, center: Any, radius: float, *, restarts: int = 8, seed: int = 0
) -> float:
    """One-sided transfer measure between two mixtures of the domains.

    Args:
        losses: The domains' losses.
        source: Weights of the source's mixture, shape (K,).
        target: Weights of the target's mixture, shape (K,).
        center: Head in the middle of the ball, shape (C, D).
        radius: √δ, above zero.
        restarts: Random starts of the ascent.
        seed: Of the random starts.

    Returns:
        T(source‖target); a lower estimate unless the loss is squared error.
    """
    radius = check_positive("radius", radius, "It is √δ, the largest distance of a head from the centre.")
    ball = Ball(losses.as_head(center), radius)
    weights = [torch.as_tensor(w, dtype=torch.float64) for w in (source, target)]
    heads = [mixture_minimizer(losses, w) for w in weights]
    minima = [float(w.numpy() @ losses.values(head)) for w, head in zip(weights, heads, strict=True)]
    starts = ball.starts(heads, restarts, seed)
    exact = losses.loss == "squared_error"
    return supremum(losses, weights[1] - weights[0], ball, starts, exact) - (minima[1] - minima[0])


def largest_pair(matrix: Floats) -> tuple[int, int]:
    """Row and column of the largest entry off the diagonal."""
    off = np.where(np.eye(len(matrix), dtype=bool), -np.inf, matrix)
    row, column = np.unravel_index(int(off.argmax()), off.shape)
    return int(row), int(column)


def supremum(losses: DomainLosses, mixture: Tensor, ball: Ball, starts: Tensor, exact: bool) -> float:
    """Largest value of Σ_e a_e L_e on the ball for weights that sum to zero, exactly for quadratics."""
    if not exact:
        return largest_difference(losses, mixture, ball, starts)
    rows = losses.weights @ mixture
    residual = HEADS[losses.loss](losses.inputs @ ball.center.T, losses.targets).gradient
    values, vectors = torch.linalg.eigh((losses.inputs * rows[:, None]).T @ losses.inputs)
    slope = (residual * rows[:, None]).T @ losses.inputs @ vectors
    # The Hessian is the same for every output: the eigenvalues repeat.
    eigenvalues = values.repeat(len(slope)).numpy()
    at_center = float(mixture.numpy() @ losses.values(ball.center))
    return at_center + largest_quadratic(eigenvalues, slope.flatten().numpy(), ball.radius)
