r"""Distances between domains: of their derivatives beyond sampling noise, and of their features' moments.

The plain distance between two samples' mean derivatives is biased upward by the noise within each: two samples of one
domain are never at distance zero. Leaving the products of a sample with itself out removes the bias of the square.
"""

from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import check_order
from momentalign._types import Array
from momentalign._validation import check_count
from momentalign.functional import derivative_gram
from momentalign.theory._losses import DomainLosses, as_numbers, encode_domains

_LEVEL = 0.9
MOST_ROWS = 4000
"""Rows used in a bootstrap; if there are more, equal shares of the domains are drawn."""


@dataclass(frozen=True, eq=False)
class DerivativeDistances:
    """Distances between the domains' derivatives of one order, each matrix (K, K).

    Attributes:
        order: Order of the derivative.
        plain: ‖∇^r L_e − ∇^r L_f‖ of the samples, exactly; biased upward as an estimate for the domains themselves.
        unbiased_squares: Unbiased estimates of the squared distances; below zero where noise outweighs distance, NaN
            for a domain with one row.
        low: Lower ends of 90% bootstrap intervals for the squared distances.
        high: Upper ends.
    """

    order: int
    plain: Array
    unbiased_squares: Array
    low: Array
    high: Array


def derivative_distances(
    losses: DomainLosses, head: Any, *, order: int = 3, resamples: int = 200, seed: int = 0
) -> dict[int, DerivativeDistances]:
    r"""Distances between the domains' derivatives at a fixed head, with bootstrap intervals.

    With :math:`G_{ij}` the inner products of the samples' derivatives, the squared distance of two domains is estimated
    by the mean of G over pairs i ≠ j of the first, plus that of the second, minus twice that between them. Rows are
    resampled within domains. Resampling takes the sample for the population, whose squared distance is the plain one:
    the interval holds the percentiles of the replicates, shifted by the difference. If the true distance is close to
    zero the interval is too wide. A head fitted to the same rows makes them look slightly closer than new rows would.
    Of more than 4,000 rows equal shares of the domains are drawn, but for `plain`.

    Args:
        head: Shape (C, D), held fixed.
        order: Orders 1 to this one, at most 3 for cross-entropy.
        resamples: Bootstrap resamples; at least 20.

    Returns:
        The distances by order.
    """
    check_order(order, losses.loss)
    check_count("resamples", resamples, 20)
    theta = losses.as_head(head)
    number = len(losses)
    rng = np.random.default_rng(seed)
    rows = rows_by_domain(losses.domains, number, max(50, MOST_ROWS // number), rng)
    # The sample itself is the first column of the counts.
    counts = [np.insert(resampled_counts(len(own), resamples, rng), 0, 1.0, axis=1) for own in rows]
    chosen = np.concatenate(rows)
    starts = np.cumsum([0, *map(len, rows)])
    X, targets = losses.features[chosen], losses.targets[chosen]
    logits = losses.inputs[chosen] @ theta.T
    found = {}
    for r in range(1, order + 1):
        gram = derivative_gram(r, X, logits, targets, loss=losses.loss, bias=losses.bias).numpy()
        # Means over pairs of rows, and over pairs of different draws; (K, K, 1 + resamples).
        biased, unbiased = np.zeros((2, number, number, 1 + resamples))
        for e, f in combinations_with_replacement(range(number), 2):
            block = gram[starts[e] : starts[e + 1], starts[f] : starts[f + 1]]
            sums = (counts[e] * (block @ counts[f])).sum(0)
            biased[e, f] = biased[f, e] = unbiased[e, f] = unbiased[f, e] = sums / block.size
            if e == f:
                size = len(block)
                own = block.diagonal() @ counts[e]
                unbiased[e, e] = (sums - own) / (size * (size - 1)) if size > 1 else np.nan
        plain = losses.derivative_norms(r, theta)
        found[r] = DerivativeDistances(r, plain, *_intervals(_squares(unbiased), _squares(biased)[..., 0]))
    return found


def _squares(means: Array) -> Array:
    """Squared distances from means of inner products, over the first two axes."""
    number = len(means)
    diagonal = means[np.arange(number), np.arange(number)]
    squares: Array = diagonal[:, None] + diagonal[None, :] - 2 * means
    squares[np.arange(number), np.arange(number)] = 0.0
    return squares


def _intervals(squares: Array, center: Array) -> tuple[Array, Array, Array]:
    """Estimates and percentile intervals, shifted by the difference between `center` and the estimate.

    The replicates estimate `center`, the value of the resampled population. Squares of distances are skewed to the
    right. The basic interval, which mirrors the replicates, then lies too low and covers far less than its level; this
    one was close to its level, or above it, for all distances and row counts tried.
    """
    estimate, replicates = squares[..., 0], squares[..., 1:]
    tail = (1 - _LEVEL) / 2
    lower, upper = np.quantile(replicates - center[..., None], [tail, 1 - tail], axis=-1)
    return estimate, estimate + lower, estimate + upper


def rows_by_domain(domains: Tensor, number: int, most: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Rows of each of the domains 0 … number − 1, at most `most` of each, drawn without replacement."""
    drawn = []
    for domain in range(number):
        rows = (domains == domain).nonzero()[:, 0].numpy()
        drawn.append(rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False)))
    return drawn


def resampled_counts(size: int, resamples: int, rng: np.random.Generator) -> Array:
    """Count of each of `size` rows in each bootstrap resample; shape (size, resamples)."""
    counts: Array = rng.multinomial(size, np.full(size, 1 / size), resamples).T.astype(np.float64)
    return counts


@dataclass(frozen=True, eq=False)
class MomentGaps:
    """Distances between the domains' means and covariances.

    Attributes:
        mean: ‖μ_a − μ_b‖₂ between all pairs, shape (K, K).
        covariance: ‖Σ_a − Σ_b‖_F with ddof 1, shape (K, K); NaN if a domain has one row.
        average_mean: Over the pairs a < b.
        average_covariance: Over the pairs a < b of domains that have a covariance.
    """

    mean: Array
    covariance: Array
    average_mean: float
    average_covariance: float


def moment_gaps(X: Any, domains: Any) -> MomentGaps:
    """Distances between the domains' first and second moments, between all pairs and on average.

    Args:
        X: Features, shape (n, d).
        domains: Domain of each row, shape (n,), any labels.

    Returns:
        The distances, the domains in ascending order.

    Example:
        >>> gaps = moment_gaps([[0.0], [2.0], [3.0], [7.0]], ["a", "a", "b", "b"])
        >>> gaps.average_mean, gaps.average_covariance
        (4.0, 6.0)
    """
    features = as_numbers("X", X)
    names, index = encode_domains(domains, len(features))
    return tensor_moment_gaps(features, index, len(names))


def moment_distances(order: int, X: Any, domains: Any) -> Array:
    r"""Distances :math:`\|E_a x^{\otimes r} - E_b x^{\otimes r}\|` between the domains' raw moments of any order.

    Computed from the inner products :math:`(x_i \cdot x_j)^r`, without the moments themselves: the counterpart of the
    distances between derivatives of order r, with which they agree up to a factor if the residual tensor is the same
    for all samples.

    Args:
        order: r, at least 1.
        X: Features, shape (n, d).
        domains: Domain of each row, shape (n,), any labels.

    Returns:
        Shape (K, K), the domains in ascending order.

    Example:
        >>> moment_distances(2, [[1.0], [2.0]], ["a", "b"])
        array([[0., 3.],
               [3., 0.]])
    """
    check_count("order", order, 1)
    features = as_numbers("X", X)
    names, index = encode_domains(domains, len(features))
    parts = [features[index == domain] for domain in range(len(names))]
    gram = torch.stack([torch.stack([((a @ b.T) ** order).mean() for b in parts]) for a in parts])
    distances: Array = closed_form.distances(gram).numpy()
    return distances


def tensor_moment_gaps(features: Tensor, index: Tensor, number: int) -> MomentGaps:
    """Moment gaps of features (n, d) whose domains are indices 0 … number − 1, computed on the features' device."""
    means, covariances = [], []
    for domain in range(number):
        rows = features[index == domain]
        means.append(rows.mean(0))
        spread = rows - means[-1]
        covariances.append(spread.T @ spread / (len(rows) - 1) if len(rows) > 1 else spread.T @ spread * torch.nan)
    gaps = np.zeros((2, number, number))
    for a, b in combinations(range(number), 2):
        for gap, moments in zip(gaps, (means, covariances), strict=True):
            gap[a, b] = gap[b, a] = float((moments[a] - moments[b]).norm())
    first, second = (gap[np.triu_indices(number, 1)] for gap in gaps)
    known = second[~np.isnan(second)]
    return MomentGaps(gaps[0], gaps[1], float(first.mean()), float(known.mean()) if len(known) else float("nan"))
