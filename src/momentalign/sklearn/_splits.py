"""Splits of the search into rows to fit and rows to score, and their progress."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from momentalign._format import format_duration

FitSplit = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows to fit and rows to score."""

_QUIET_SECONDS = 10.0


def domain_folds(domains: NDArray[np.int64], most: int) -> list[FitSplit]:
    """Each domain left out in turn, in order; or `most` folds of domains with about as many rows each."""
    number = len(np.unique(domains))
    splits = list(GroupKFold(min(most, number)).split(domains, groups=domains))
    if number <= most:
        splits.sort(key=lambda split: domains[split[1][0]])
    return splits


class SplitProgress:
    """Counts finished splits for the callback, and prints them from ten seconds on."""

    def __init__(self, total: int, callback: Callable[[int, int], None] | None, *, verbose: bool) -> None:
        self.done, self.total, self.callback, self.verbose = 0, total, callback, verbose
        self.start = self.printed = time.monotonic()

    def tick(self) -> None:
        self.done += 1
        if self.callback is not None:
            self.callback(self.done, self.total)
        now = time.monotonic()
        if self.verbose and now - self.printed > _QUIET_SECONDS:
            self.printed = now
            left = (now - self.start) / self.done * (self.total - self.done)
            print(f"{self.done} of {self.total} splits, about {format_duration(left)} left")

    def skip(self, splits: int) -> None:
        """Leave splits out that have become needless."""
        for _ in range(splits):
            self.tick()
