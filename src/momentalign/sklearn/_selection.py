"""Choosing among fits by rows that they have not seen: held-out domains, or folds and the worst group."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Choice(NamedTuple):
    """The chosen candidate, all candidates' scores, and the standard errors of their gains over the first."""

    candidate: int
    scores: Array
    errors: Array


def domain_splits(domains: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to fit and rows to score, each domain left out in turn."""
    for domain in range(int(domains.max()) + 1):
        out = domains == domain
        yield np.flatnonzero(~out), np.flatnonzero(out)


def fold_splits(
    strata: NDArray[np.int64], folds: int, random: np.random.RandomState
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to fit and rows to score, each fold left out in turn, every stratum dealt out evenly however small."""
    shuffled = random.permutation(len(strata))
    dealt = np.empty(len(strata), dtype=np.int64)
    dealt[shuffled[np.argsort(strata[shuffled], kind="stable")]] = np.arange(len(strata)) % folds
    yield from domain_splits(dealt)


def choose(hits: Array, units: NDArray[np.int64], *, worst: bool, cautious: bool) -> Choice:
    """Choose the candidate with the largest gain over the first one, or the largest gain less its standard error.

    Gain and error are those of the difference on the same rows. Few domains estimate the error badly, and three that
    happen to agree would make it next to nothing, so it is never taken smaller than the rows' own noise.

    Args:
        hits: 1 where a candidate was right about a row, 0 where it was wrong, shape (candidates, n).
        units: Domain or group of each row, 0 … U − 1, shape (n,).
        worst: Score by the worst unit instead of the units' mean.
        cautious: Subtract the standard error.

    Returns:
        The choice; on ties the earlier candidate.
    """
    members = [units == unit for unit in range(int(units.max()) + 1)]
    each = np.stack([hits[:, rows].mean(1) for rows in members])
    scores: Array = each.min(0) if worst else each.mean(0)
    differences = hits - hits[0]
    noise = np.stack([differences[:, rows].var(1) / rows.sum() for rows in members])
    if worst:
        errors = np.sqrt(noise[each.argmin(0), np.arange(len(hits))])
    else:
        between = (each - each[:, :1]).std(0, ddof=1) if len(members) > 1 else np.zeros(len(hits))
        errors = np.maximum(between / np.sqrt(len(members)), np.sqrt(noise.sum(0)) / len(members))
    gains = scores - scores[0] - (errors if cautious else 0.0)
    return Choice(int((gains > gains.max() - 1e-12).argmax()), scores, errors)
