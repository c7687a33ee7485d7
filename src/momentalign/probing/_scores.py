"""Accuracies of a linear head: average, by domain, by group, and of the worst group."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from momentalign.linear import LinearHead

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Accuracies in 0 … 1 over some rows.

    Args:
        average: Over all rows.
        worst: Of the worst group that has rows.
        groups: Of each group; NaN for one without rows.
        domains: Of each domain; NaN for one without rows.
    """

    average: float
    worst: float
    groups: Array
    domains: Array

    @classmethod
    def of(
        cls,
        hits: NDArray[np.bool_],
        domains: NDArray[np.int64],
        groups: NDArray[np.int64],
        *,
        num_domains: int,
        num_groups: int,
    ) -> "Scores":
        """From the rows that a head is right about.

        Args:
            hits: Shape (n,).
            domains: Indices, shape (n,).
            groups: Indices, shape (n,).
            num_domains: Number of domains.
            num_groups: Number of groups.

        Returns:
            The accuracies.

        Example:
            >>> right = np.array([True, True, False, True])
            >>> Scores.of(right, np.zeros(4, int), np.array([0, 0, 1, 1]), num_domains=1, num_groups=2).worst
            0.5
        """
        by_group, by_domain = _means(hits, groups, num_groups), _means(hits, domains, num_domains)
        return cls(float(hits.mean()), float(np.nanmin(by_group)), by_group, by_domain)


def predict(head: LinearHead, features: NDArray[np.floating]) -> NDArray[np.int64]:
    """Likeliest class of each row, shape (n,)."""
    logits = features @ head.coef.T + head.intercept
    likeliest: NDArray[np.int64] = (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(1)
    return likeliest


def _means(hits: NDArray[np.bool_], codes: NDArray[np.int64], number: int) -> Array:
    sizes = np.bincount(codes, minlength=number)
    right = np.bincount(codes, weights=hits, minlength=number)
    means: Array = np.divide(right, sizes, out=np.full(number, np.nan), where=sizes > 0)
    return means
