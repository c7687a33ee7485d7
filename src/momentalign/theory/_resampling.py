"""Rows drawn from domains: fewer of them where there are many, and again for the bootstrap."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from momentalign.theory._inputs import Floats


def rows_by_domain(domains: Tensor, number: int, most: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Rows of each of the domains 0 … number − 1, at most `most` of a domain, drawn without replacement."""
    found = []
    for domain in range(number):
        rows = (domains == domain).nonzero()[:, 0].numpy()
        found.append(rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False)))
    return found


def share_of_rows(max_rows: int, number: int) -> int:
    """Rows a domain may bring when all together may bring `max_rows`; never too few to resample."""
    return max(50, max_rows // number)


def resampled_counts(size: int, draws: int, resamples: int, rng: np.random.Generator) -> Tensor:
    """How often each of `size` rows is drawn when `draws` are drawn with replacement; shape (size, resamples)."""
    return torch.from_numpy(rng.multinomial(draws, np.full(size, 1 / size), resamples).T.astype(np.float64))


def shifted_interval(estimate: Floats, center: Floats, replicates: Floats, level: float) -> tuple[Floats, Floats]:
    """Percentile intervals, moved by how far the resampled population's own value lies from the estimate.

    Squares of distances are skewed to the right. The basic interval, which turns the replicates over, then lies too low
    and covers far less than it says; this one was close to its level, or above it, whatever the distance and the rows.

    Args:
        estimate: Of the sample, any shape.
        center: What the replicates estimate, the same shape.
        replicates: The same shape and a last axis of resamples.
        level: To be covered.

    Returns:
        Lower and upper ends.
    """
    tail = (1 - level) / 2
    lower, upper = np.quantile(replicates - center[..., None], [tail, 1 - tail], axis=-1)
    return estimate + lower, estimate + upper
