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
from momentalign.functional import derivative_gram
from momentalign.theory._losses import DomainLosses, as_numbers, encode_domains

_LEVEL = 0.9
_MOST_ROWS = 4000
"""Rows used in a bootstrap; if there are more, equal shares of the domains are drawn."""


@dataclass(frozen=True, eq=False)
class DerivativeDistances:
    """Distances between the domains' derivatives of one order, each matrix (K, K).

    Attributes:
        unbiased_square: Unbiased estimates of the squared distances; below zero where noise outweighs distance, NaN
            for a domain with one row.
        square_low: Lower ends of 90% bootstrap intervals for the squared distances.
        square_high: Upper ends.
    """

    unbiased_square: Array
    square_low: Array
    square_high: Array


def derivative_distances(
    losses: DomainLosses, head: Any, *, order: int = 3, resamples: int = 200
) -> dict[int, DerivativeDistances]:
    r"""Squared distances between the domains' derivatives at a fixed head, with bootstrap intervals.

    With :math:`G_{ij}` the inner products of the samples' derivatives, the squared distance of two domains is estimated
    by the mean of G over pairs i ≠ j of the first, plus that of the second, minus twice that between them. Rows are
    resampled within domains. Resampling takes the sample for the population, whose squared distance is the plain one:
    the interval holds the percentiles of the replicates, shifted by the difference. If the true distance is close to
    zero the interval is too wide. A head fitted to the same rows makes them look slightly closer than new rows would.
    Of more than 4,000 rows equal shares of the domains are drawn.

    Args:
        head: Shape (C, D), held fixed.
        order: Orders 1 to this one, at most 3 for cross-entropy.
        resamples: Bootstrap resamples; at least 20.

    Returns:
        The distances by order.
    """
    check_count("resamples", resamples, 20)
    rng = np.random.default_rng(0)
    rows = [draw_rows(losses.domains == e, len(losses), rng) for e in range(len(losses))]
    # The sample itself is the first column of the counts.
    counts = [np.insert(resampled_counts(len(own), resamples, rng), 0, 1.0, axis=1) for own in rows]
    sizes, drawn, stacked = np.array([*map(len, rows)]), np.concatenate(rows), np.concatenate(counts)
    starts = np.cumsum(sizes) - sizes
    pairs = np.where(sizes > 1, sizes * (sizes - 1), np.nan)
    X, targets = losses.features[drawn], losses.targets[drawn]
    logits = losses.inputs[drawn] @ losses.as_head(head).T
    found = {}
    for r in range(1, check_order(order, losses.loss) + 1):
        gram = derivative_gram(r, X, logits, targets, loss=losses.loss, bias=losses.bias).numpy()
        columns = [gram[:, start : start + len(own)] @ own for start, own in zip(starts, counts, strict=True)]
        # Sums over pairs of rows, and over a domain's rows with themselves; (K, K, 1 + resamples) and (K, ...).
        sums = np.stack([np.add.reduceat(stacked * column, starts) for column in columns], 1)
        own = np.add.reduceat(stacked * gram.diagonal()[:, None], starts)
        biased = sums / np.multiply.outer(sizes, sizes)[..., None]
        within = (np.einsum("eer->er", sums) - own) / pairs[:, None]
        squares = _squares(biased, within)
        # The replicates estimate the value of the resampled population. Squares of distances are skewed to the right:
        # the basic interval, which mirrors the replicates, lies too low and covers far less than its level; this one
        # was close to its level, or above it, for all distances and row counts tried.
        center = _squares(biased, np.einsum("eer->er", biased))[..., :1]
        ends = np.quantile(squares[..., 1:] - center, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=-1)
        found[r] = DerivativeDistances(squares[..., 0], *(squares[..., 0] + ends))
    return found


def _squares(means: Array, within: Array) -> Array:
    """Squared distances (K, K, ...) from mean inner products between domains and those within one, (K, ...)."""
    squares: Array = within[:, None] + within[None, :] - (means + means.swapaxes(0, 1))
    squares[np.diag_indices(len(means))] = 0.0
    return squares


def draw_rows(member: Tensor, number: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of one of `number` domains: all, or a share of those that a bootstrap uses, without replacement."""
    rows, most = member.nonzero()[:, 0].numpy(), max(50, _MOST_ROWS // number)
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


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
    """

    mean: Array
    covariance: Array

    @property
    def average_mean(self) -> float:
        """Over the pairs of domains."""
        return _average(self.mean)

    @property
    def average_covariance(self) -> float:
        """Over the pairs of domains that have a covariance."""
        return _average(self.covariance)


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
    weights = closed_form.domain_weights(index, torch.arange(len(names)), torch.float64)
    distances: Array = closed_form.distances(weights.T @ (features @ features.T) ** order @ weights).numpy()
    return distances


def tensor_moment_gaps(features: Tensor, index: Tensor, number: int) -> MomentGaps:
    """Moment gaps of features (n, d) whose domains are indices 0 … number − 1, computed on the features' device."""
    means, covariances = [], []
    for domain in range(number):
        rows = features[index == domain]
        means.append(rows.mean(0))
        spread = rows - means[-1]
        covariances.append((spread.T @ spread / (len(rows) - 1 if len(rows) > 1 else torch.nan)).flatten())
    return MomentGaps(_gaps(means), _gaps(covariances))


def _gaps(moments: list[Tensor]) -> Array:
    return np.array([[float((a - b).norm()) if a is not b else 0.0 for a in moments] for b in moments])


def _average(gaps: Array) -> float:
    return torch.from_numpy(gaps[np.triu_indices(len(gaps), 1)]).nanmean().item()
