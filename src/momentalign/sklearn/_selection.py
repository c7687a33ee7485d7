"""Choosing among fits by rows that they have not seen: held-out domains, or folds and the worst group."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]


class Choice(NamedTuple):
    """The chosen candidate, all candidates' scores, and the standard errors of their gains over the first."""

    candidate: int
    scores: Array
    errors: Array


def domain_splits(domains: NDArray[np.int64]) -> Iterator[Split]:
    """Rows to fit and rows to score, each domain left out in turn."""
    for domain in range(int(domains.max()) + 1):
        out = domains == domain
        yield np.flatnonzero(~out), np.flatnonzero(out)


def fold_splits(strata: NDArray[np.int64], folds: int, random: np.random.RandomState) -> Iterator[Split]:
    """Rows to fit and rows to score, each fold left out in turn, every stratum dealt out evenly however small."""
    shuffled = random.permutation(len(strata))
    dealt = np.empty(len(strata), dtype=np.int64)
    dealt[shuffled[np.argsort(strata[shuffled], kind="stable")]] = np.arange(len(strata)) % folds
    yield from domain_splits(dealt)


def choose(
    scores: Array, units: NDArray[np.int64], *, worst: bool, cautious: bool, considered: Sequence[int] | None = None
) -> Choice:
    """Choose the candidate with the largest gain over the first one, on the same rows.

    A cautious choice by the units' mean takes only candidates that lose on no unit: few domains say little about the
    spread of a gain, but whether it was one everywhere can be seen. A cautious choice by the worst unit, which may be
    another one for each candidate, takes only gains that exceed their standard error.

    Args:
        scores: Score of each row under each candidate, larger is better, shape (candidates, n).
        units: Domain or group of each row, 0 … U − 1, shape (n,).
        worst: Score by the worst unit instead of the units' mean.
        cautious: Whether to be cautious.
        considered: Candidates to choose among, the first of all included; None is all.

    Returns:
        The choice; on ties the earlier candidate.
    """
    members = [units == unit for unit in range(int(units.max()) + 1)]
    each = np.stack([scores[:, rows].mean(1) for rows in members])
    gains, every = each - each[:, :1], np.arange(len(scores))
    noise = np.sqrt([(scores - scores[0])[:, rows].var(1) / rows.sum() for rows in members])
    if worst:
        total: Array = each.min(0)
        errors = noise[each.argmin(0), every]
        allowed = total - total[0] > errors
    else:
        total = each.mean(0)
        between = gains.std(0, ddof=1) if len(members) > 1 else np.zeros(len(scores))
        # Three domains that happen to agree would make the error next to nothing: not smaller than the rows' noise.
        errors = np.maximum(between / np.sqrt(len(members)), np.sqrt(np.square(noise).sum(0)) / len(members))
        allowed = (gains >= -1e-12).all(0)
    allowed |= not cautious
    if considered is not None:
        allowed &= np.isin(every, considered)
    allowed[0] = True
    ranked = np.where(allowed, total, -np.inf)
    return Choice(int((ranked > ranked.max() - 1e-12).argmax()), total, errors)
