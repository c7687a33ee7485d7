r"""How far the domains' derivatives are apart beyond sampling noise.

The plain distance between two samples' mean derivatives is biased upward by the noise within each: two samples of one
domain are never at distance zero. Leaving the products of a sample with itself out removes the bias of the square.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from momentalign import closed_form
from momentalign._validation import check_count
from momentalign.closed_form import HEADS
from momentalign.theory._inputs import Floats
from momentalign.theory._losses import DomainLosses
from momentalign.theory._resampling import resampled_counts, rows_by_domain, share_of_rows, shifted_interval
from momentalign.theory._taylor import check_taylor_order


@dataclass(frozen=True, eq=False)
class DerivativeDistances:
    """Distances between the domains' derivatives of one order, each matrix (K, K).

    Attributes:
        order: Of the derivative.
        plain: ‖∇^r L_e − ∇^r L_f‖ of the samples, exactly; biased upward as an estimate for the domains themselves.
        unbiased_squares: Unbiased estimates of the squared distances; below zero where noise outweighs distance, NaN
            for a domain with one row.
        low: Lower ends of the bootstrap intervals for the squared distances.
        high: Upper ends.
        level: What the intervals are meant to cover.
    """

    order: int
    plain: Floats
    unbiased_squares: Floats
    low: Floats
    high: Floats
    level: float

    @property
    def unbiased(self) -> Floats:
        """Roots of the unbiased squares, zero where these are negative."""
        found: Floats = np.sqrt(self.unbiased_squares.clip(min=0))
        return found

    @property
    def intervals(self) -> tuple[Floats, Floats]:
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
    the interval holds the percentiles of the replicates, moved by the difference. Where the true distance is next to
    zero it errs on the wide side. A head fitted to the same rows makes them look a little closer than new rows would.

    Args:
        losses: The domains' losses.
        head: Shape (C, D), held fixed.
        order: Orders 1 to this one, at most 3.
        resamples: Of the bootstrap; at least 20.
        level: Of the intervals, between 0 and 1.
        max_rows: Where there are more rows, that many are drawn in equal shares for the intervals and the unbiased
            squares (which stay unbiased); `plain` uses all.
        seed: Of the draws.

    Returns:
        The distances by order.
    """
    check_taylor_order(order)
    check_count("resamples", resamples, 20)
    check_level(level)
    check_count("max_rows", max_rows, 1)
    theta = losses.as_head(head)
    number, orders = len(losses), range(1, order + 1)
    rng = np.random.default_rng(seed)
    rows = rows_by_domain(losses.domains, number, share_of_rows(max_rows, number), rng)
    counts = [resampled_counts(len(own), len(own), resamples, rng) for own in rows]
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
            closed_form.distances(losses.gram(r, theta)).numpy(),
            *_intervals(_squares(unbiased[r]), _squares(biased[r])[..., 0], level),
            level,
        )
        for r in orders
    }


def check_level(level: object) -> float:
    """Return `level` if it lies between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float):
        raise TypeError(f"'level' should be a number, but is {level!r}.")
    if not 0 < level < 1:
        raise ValueError(f"'level' should lie between 0 and 1, but is {level!r}. Use 0.9 for intervals of 90%.")
    return float(level)


def _pair_means(gram: Tensor, counts: Tensor, others: Tensor, same: bool) -> tuple[Floats, Floats]:
    """Means of a Gram block over all pairs of rows and over pairs of different draws; the sample, then resamples."""
    size, other_size = gram.shape
    c = np.hstack([np.ones((size, 1)), counts.numpy()])
    d = np.hstack([np.ones((other_size, 1)), others.numpy()])
    sums: Floats = (c * (gram.numpy() @ d)).sum(0)
    means = sums / (size * other_size)
    if not same:
        return means, means
    if size < 2:
        return means, np.full_like(means, np.nan)
    own = gram.diagonal().numpy() @ c
    return means, (sums - own) / (size * (size - 1))


def _squares(means: Floats) -> Floats:
    """Squared distances from means of inner products, over the first two axes."""
    number = len(means)
    diagonal = means[np.arange(number), np.arange(number)]
    found: Floats = diagonal[:, None] + diagonal[None, :] - 2 * means
    found[np.arange(number), np.arange(number)] = 0.0
    return found


def _intervals(squares: Floats, center: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    estimate = squares[..., 0]
    return estimate, *shifted_interval(estimate, center, squares[..., 1:], level)
