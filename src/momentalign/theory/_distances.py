r"""Distances between domains: of their derivatives beyond sampling noise, and of their features' moments.

The plain distance between two samples' mean derivatives is biased upward by the noise within each: two samples of one
domain are never at distance zero. Leaving the products of a sample with itself out removes the bias of the square.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import check_order
from momentalign._types import Array
from momentalign._validation import check_count
from momentalign.closed_form import HEADS
from momentalign.theory._inputs import as_features, check_level, index_named_domains
from momentalign.theory._losses import DomainLosses

_BLOCK = 1024
"""Rows whose inner products with all others are held at a time."""


@dataclass(frozen=True, eq=False)
class DerivativeDistances:
    """Distances between the domains' derivatives of one order, each matrix (K, K).

    Attributes:
        order: Order of the derivative.
        plain: ‖∇^r L_e − ∇^r L_f‖ of the samples, exactly; biased upward as an estimate for the domains themselves.
        unbiased_squares: Unbiased estimates of the squared distances; below zero where noise outweighs distance, NaN
            for a domain with one row.
        low: Lower ends of the bootstrap intervals for the squared distances.
        high: Upper ends.
        level: Nominal coverage of the intervals.
    """

    order: int
    plain: Array
    unbiased_squares: Array
    low: Array
    high: Array
    level: float

    @property
    def unbiased(self) -> Array:
        """Roots of the unbiased squares, zero where these are negative."""
        roots: Array = np.sqrt(self.unbiased_squares.clip(min=0))
        return roots

    @property
    def intervals(self) -> tuple[Array, Array]:
        """Ends of the intervals for the distances themselves, zero where those of the squares are negative."""
        return np.sqrt(self.low.clip(min=0)), np.sqrt(self.high.clip(min=0))


def derivative_distances(
    losses: DomainLosses,
    head: Any,
    *,
    order: int = 3,
    resamples: int = 200,
    level: float = 0.9,
    max_rows: int = 4000,
    seed: int = 0,
) -> dict[int, DerivativeDistances]:
    r"""Distances between the domains' derivatives at a fixed head, with bootstrap intervals.

    With :math:`G_{ij}` the inner products of the samples' derivatives, the squared distance of two domains is estimated
    by the mean of G over pairs i ≠ j of the first, plus that of the second, minus twice that between them. Rows are
    resampled within domains. Resampling takes the sample for the population, whose squared distance is the plain one:
    the interval holds the percentiles of the replicates, shifted by the difference. If the true distance is close to
    zero the interval is too wide. A head fitted to the same rows makes them look slightly closer than new rows would.

    Args:
        head: Shape (C, D), held fixed.
        order: Orders 1 to this one, at most 4 for cross-entropy.
        resamples: Bootstrap resamples; at least 20.
        level: Coverage of the intervals, between 0 and 1.
        max_rows: If there are more rows, that many are drawn in equal shares for the intervals and the unbiased
            squares (which stay unbiased); `plain` uses all.

    Returns:
        The distances by order.
    """
    check_order(order, losses.loss)
    check_count("resamples", resamples, 20)
    check_level(level)
    check_count("max_rows", max_rows, 1)
    theta = losses.as_head(head)
    number, orders = len(losses), range(1, order + 1)
    rng = np.random.default_rng(seed)
    rows = rows_by_domain(losses.domains, number, rows_per_domain(max_rows, number), rng)
    counts = [resampled_counts(len(own), resamples, rng) for own in rows]
    logits = losses.inputs @ theta.T
    blocks = [HEADS[losses.loss](logits[own], losses.targets[own]) for own in rows]
    # By order: means over pairs of rows between domains, of the sample first and then of each resample; (K, K, 1 + B).
    biased = {r: np.zeros((number, number, 1 + resamples)) for r in orders}
    unbiased = {r: np.zeros((number, number, 1 + resamples)) for r in orders}
    for e in range(number):
        for f in range(e + 1):
            grams = closed_form.cross_grams(
                orders, blocks[e], losses.inputs[rows[e]], blocks[f], losses.inputs[rows[f]], False
            )
            for r, gram in grams.items():
                all_pairs, other_pairs = _pair_means(gram, counts[e], counts[f], e == f)
                biased[r][e, f] = biased[r][f, e] = all_pairs
                unbiased[r][e, f] = unbiased[r][f, e] = other_pairs
    return {
        r: DerivativeDistances(
            r,
            losses.derivative_norms(r, theta),
            *_intervals(_squares(unbiased[r]), _squares(biased[r])[..., 0], level),
            level,
        )
        for r in orders
    }


def _pair_means(gram: Tensor, counts: Tensor, others: Tensor, same: bool) -> tuple[Array, Array]:
    """Means of a Gram block over all pairs of rows and over pairs of different draws; the sample, then resamples."""
    size, other_size = gram.shape
    c = np.hstack([np.ones((size, 1)), counts.numpy()])
    d = np.hstack([np.ones((other_size, 1)), others.numpy()])
    sums: Array = (c * (gram.numpy() @ d)).sum(0)
    means = sums / (size * other_size)
    if not same:
        return means, means
    if size < 2:
        return means, np.full_like(means, np.nan)
    own = gram.diagonal().numpy() @ c
    return means, (sums - own) / (size * (size - 1))


def _squares(means: Array) -> Array:
    """Squared distances from means of inner products, over the first two axes."""
    number = len(means)
    diagonal = means[np.arange(number), np.arange(number)]
    squares: Array = diagonal[:, None] + diagonal[None, :] - 2 * means
    squares[np.arange(number), np.arange(number)] = 0.0
    return squares


def _intervals(squares: Array, center: Array, level: float) -> tuple[Array, Array, Array]:
    """Estimates and percentile intervals, shifted by the difference between `center` and the estimate.

    The replicates estimate `center`, the value of the resampled population. Squares of distances are skewed to the
    right. The basic interval, which mirrors the replicates, then lies too low and covers far less than its level; this
    one was close to its level, or above it, for all distances and row counts tried.
    """
    estimate, replicates = squares[..., 0], squares[..., 1:]
    tail = (1 - level) / 2
    lower, upper = np.quantile(replicates - center[..., None], [tail, 1 - tail], axis=-1)
    return estimate, estimate + lower, estimate + upper


def rows_by_domain(domains: Tensor, number: int, most: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Rows of each of the domains 0 … number − 1, at most `most` of each, drawn without replacement."""
    drawn = []
    for domain in range(number):
        rows = (domains == domain).nonzero()[:, 0].numpy()
        drawn.append(rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False)))
    return drawn


def rows_per_domain(max_rows: int, number: int) -> int:
    """Row limit per domain if all domains together have at most `max_rows`; never below 50, to allow resampling."""
    return max(50, max_rows // number)


def resampled_counts(size: int, resamples: int, rng: np.random.Generator) -> Tensor:
    """Count of each of `size` rows in each bootstrap resample; shape (size, resamples)."""
    return torch.from_numpy(rng.multinomial(size, np.full(size, 1 / size), resamples).T.astype(np.float64))


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
    features = as_features("X", X)
    names, index = index_named_domains(domains, len(features))
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
    features = as_features("X", X)
    names, index = index_named_domains(domains, len(features))
    _, weights = closed_form.index_domains(index, len(names), features.dtype)
    gram = torch.zeros(len(names), len(names), dtype=features.dtype)
    for rows, own in zip(features.split(_BLOCK), weights.split(_BLOCK), strict=True):
        gram += own.T @ ((rows @ features.T) ** order @ weights)
    distances: Array = closed_form.distances(gram).numpy()
    return distances


def tensor_moment_gaps(features: Tensor, index: Tensor, number: int) -> MomentGaps:
    """Moment gaps of features (n, d) whose domains are indices 0 … number − 1, computed on the features' device."""
    means, covariances = [], []
    for domain in range(number):
        rows = features[index == domain]
        center = rows.mean(0)
        means.append(center)
        spread = rows - center
        covariances.append(spread.T @ spread / (len(rows) - 1) if len(rows) > 1 else spread.T @ spread * torch.nan)
    distances = torch.cdist(torch.stack(means), torch.stack(means), compute_mode="donot_use_mm_for_euclid_dist")
    first: Array = distances.cpu().numpy()
    second = np.zeros((number, number))
    for a in range(number):
        for b in range(a):
            second[a, b] = second[b, a] = float((covariances[a] - covariances[b]).norm())
    pairs = np.tril_indices(number, -1)
    known = second[pairs][~np.isnan(second[pairs])]
    return MomentGaps(first, second, float(first[pairs].mean()), float(known.mean()) if len(known) else float("nan"))
