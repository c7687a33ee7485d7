"""Moments of the features between domains: what a head's derivatives see of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._validation import check_count
from momentalign.theory._inputs import Floats, as_features, as_labels, encode

_BLOCK = 1024
"""Rows whose inner products with all others are held at a time."""


@dataclass(frozen=True, eq=False)
class MomentGaps:
    """Distances between the domains' means and covariances.

    Attributes:
        mean: ‖μ_a − μ_b‖₂ between all pairs, shape (K, K).
        covariance: ‖Σ_a − Σ_b‖_F with ddof 1, shape (K, K); NaN where a domain has one row.
        average_mean: Over the pairs a < b.
        average_covariance: Over the pairs a < b of domains that have a covariance.
    """

    mean: Floats
    covariance: Floats
    average_mean: float
    average_covariance: float


def moment_gaps(X: Any, domains: Any) -> MomentGaps:
    """Distances between the domains' first and second moments, between all pairs and on average.

    Args:
        X: Features, shape (n, d).
        domains: Where each row came from, shape (n,), any labels.

    Returns:
        The distances, the domains in ascending order.

    Example:
        >>> gaps = moment_gaps([[0.0], [2.0], [3.0], [7.0]], ["a", "a", "b", "b"])
        >>> gaps.average_mean, gaps.average_covariance
        (4.0, 6.0)
    """
    features, index, number = _prepared(X, domains)
    return gaps_of(features, index, number)


def moment_distances(order: int, X: Any, domains: Any) -> Floats:
    r"""Distances :math:`\|E_a x^{\otimes r} - E_b x^{\otimes r}\|` between the domains' raw moments of any order.

    From the inner products :math:`(x_i \cdot x_j)^r`, without the moments themselves: the counterpart of the distances
    between derivatives of order r, with which they agree up to a factor where the residual tensor is the same for all
    samples.

    Args:
        order: r, at least 1.
        X: Features, shape (n, d).
        domains: Where each row came from, shape (n,), any labels.

    Returns:
        Shape (K, K), the domains in ascending order.

    Example:
        >>> moment_distances(2, [[1.0], [2.0]], ["a", "b"])
        array([[0., 3.],
               [3., 0.]])
    """
    check_count("order", order, 1)
    features, index, number = _prepared(X, domains)
    _, weights = closed_form.index_domains(index, number, features.dtype)
    gram = torch.zeros(number, number, dtype=features.dtype)
    for rows, own in zip(features.split(_BLOCK), weights.split(_BLOCK), strict=True):
        gram += own.T @ ((rows @ features.T) ** order @ weights)
    found: Floats = closed_form.distances(gram).numpy()
    return found


def gaps_of(features: Tensor, index: Tensor, number: int) -> MomentGaps:
    """Gaps of features whose domains are already 0 … number − 1, computed where the features are."""
    means, covariances = [], []
    for domain in range(number):
        rows = features[index == domain]
        center = rows.mean(0)
        means.append(center)
        spread = rows - center
        covariances.append(spread.T @ spread / (len(rows) - 1) if len(rows) > 1 else spread.T @ spread * torch.nan)
    distances = torch.cdist(torch.stack(means), torch.stack(means), compute_mode="donot_use_mm_for_euclid_dist")
    first: Floats = distances.cpu().numpy()
    second = np.zeros((number, number))
    for a in range(number):
        for b in range(a):
            second[a, b] = second[b, a] = float((covariances[a] - covariances[b]).norm())
    pairs = np.tril_indices(number, -1)
    known = second[pairs][~np.isnan(second[pairs])]
    return MomentGaps(first, second, float(first[pairs].mean()), float(known.mean()) if len(known) else float("nan"))


def _prepared(X: Any, domains: Any) -> tuple[Tensor, Tensor, int]:
    features = as_features("X", X)
    labels, index = encode(as_labels("domains", domains, len(features), "X"))
    if len(labels) < 2:
        raise ValueError(
            f"'domains' should name at least two domains, but all {len(features)} rows are of {labels[0]!r}."
        )
    return features, index, len(labels)
