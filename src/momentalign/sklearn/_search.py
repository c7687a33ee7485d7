"""The search that the estimators with CV in their names share: first L2, then the weights, inside the training domains.

Two steps instead of a full grid: plain models cost next to nothing, so their L2 is chosen first, and one path of
weights at that L2 follows. The fewer candidates, the less often the best of them is so by luck.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear import LinearHead
from momentalign.sklearn._domains import encode_domains
from momentalign.sklearn._selection import Array, Split, choose, domain_splits, fold_splits

LOOSER = 10.0
"""How many times looser than `tol` the fits inside the search are: they are compared, not kept."""


class Setting(TypedDict):
    """A candidate: the weights, L2, and whether domains count alike in the loss or rows do."""

    gradient_weight: float
    hessian_weight: float
    l2: float
    balanced: bool


class SearchRows(NamedTuple):
    """What `fit` was given, checked."""

    features: NDArray[np.floating]
    targets: NDArray[np.generic]
    domains: NDArray[np.int64] | None
    weights: NDArray[np.float64] | None

    def of(self, index: NDArray[np.intp]) -> "SearchRows":
        """Some of the rows."""
        domains = None if self.domains is None else self.domains[index]
        weights = None if self.weights is None else self.weights[index]
        return SearchRows(self.features[index], self.targets[index], domains, weights)


class WeightSearch(ABC):
    """What an estimator has to say for the search, and the search."""

    l2s: Sequence[float]
    selection: str
    rule: str
    scaling: str
    folds: int
    tol: float
    max_iter: int
    random_state: int | np.random.RandomState | None
    callback: Callable[[int, int], None] | None
    domains_: NDArray[np.generic]

    @abstractmethod
    def _weights(self) -> list[tuple[float, float]]:
        """Gradient and Hessian weights of the candidates, 0 and 0 among them, smallest first."""

    @abstractmethod
    def _heads(self, rows: SearchRows, settings: list[Setting], tol: float) -> list[LinearHead]:
        """Heads of settings that are all balanced or all not."""

    @abstractmethod
    def _scores(self, head: LinearHead, rows: SearchRows) -> Array:
        """A head's score on each row, larger is better."""

    @abstractmethod
    def _classes(self, targets: NDArray[np.generic]) -> NDArray[np.int64]:
        """What folds are stratified by beside the domains."""

    def _check_search(self) -> list[Setting]:
        """Check the search's arguments before any work; the plain candidates."""
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("rule", self.rule, ("cautious", "best"))
        check_weight("tol", self.tol)
        check_count("max_iter", self.max_iter, 1)
        check_count("folds", self.folds, 2)
        l2s = [check_weight("l2s", l2) for l2 in self.l2s]
        if not l2s:
            raise ValueError("'l2s' should hold at least one value, but is empty.")
        return [Setting(gradient_weight=0.0, hessian_weight=0.0, l2=l2, balanced=False) for l2 in l2s]

    def _search(self, rows: SearchRows, groups: ArrayLike | None = None) -> Setting:
        """Choose a setting; sets `candidates_`, `scores_`, `standard_errors_`."""
        plain, weights = self._check_search(), self._weights()
        if rows.domains is None or len(self.domains_) < 2:
            self.candidates_ = [*plain, *self._aligned(weights, plain[0]["l2"])]
            self.scores_ = self.standard_errors_ = np.full(len(self.candidates_), np.nan)
            return plain[0]
        units = self._units(rows, groups)
        out, folds = list(domain_splits(rows.domains)), self._folds(rows, units)
        # A domain left out of two leaves one, in which nothing can be aligned: it tells L2 from L2, not the weights.
        first = out if self.selection == "leave_one_domain_out" else folds
        second = first if len(self.domains_) > 2 else folds
        worst = self.selection == "worst_group"
        tick = self._ticker(len(first) + len(second) * (1 if second is first else 2))
        table = self._table(rows, plain, first, tick)
        reference = choose(table, units, worst=worst, cautious=False).candidate
        if second is not first:
            table = self._table(rows, plain, second, tick)
        aligned = self._aligned(weights, plain[reference]["l2"])
        table = np.vstack([table[reference], table, self._table(rows, aligned, second, tick)])
        worst |= len(self.domains_) == 2
        considered = [0, *range(1 + len(plain), len(table))]
        choice = choose(table, units, worst=worst, cautious=self.rule == "cautious", considered=considered)
        self.candidates_ = [*plain, *aligned]
        self.scores_, self.standard_errors_ = choice.scores[1:], choice.errors[1:]
        return plain[reference] if choice.candidate == 0 else self.candidates_[choice.candidate - 1]

    def _aligned(self, weights: list[tuple[float, float]], l2: float) -> list[Setting]:
        return [
            Setting(gradient_weight=gradient, hessian_weight=hessian, l2=l2, balanced=True)
            for gradient, hessian in weights
        ]

    def _ticker(self, total: int) -> Callable[[], None]:
        """Counter of finished splits, which calls `callback` with their number and the total."""
        done = count(1)

        def tick() -> None:
            if self.callback is not None:
                self.callback(next(done), total)

        return tick

    def _table(self, rows: SearchRows, settings: list[Setting], splits: list[Split], tick: Callable[[], None]) -> Array:
        """Score of each row under each setting, fitted without the row."""
        table = np.empty((len(settings), len(rows.features)))
        for train, test in splits:
            heads = self._heads(rows.of(train), settings, self.tol * LOOSER)
            table[:, test] = [self._scores(head, rows.of(test)) for head in heads]
            tick()
        return table

    def _units(self, rows: SearchRows, groups: ArrayLike | None) -> NDArray[np.int64]:
        """What scores are taken over: domains, or groups."""
        assert rows.domains is not None
        if self.selection != "worst_group":
            return rows.domains
        if groups is not None:
            return encode_domains(groups, len(rows.features), name="groups")[1]
        strata = self._classes(rows.targets)
        pairs: NDArray[np.int64] = np.unique(rows.domains * (strata.max() + 1) + strata, return_inverse=True)[1]
        return pairs

    def _folds(self, rows: SearchRows, units: NDArray[np.int64]) -> list[Split]:
        assert rows.domains is not None
        strata = self._classes(rows.targets)
        codes = (units * len(self.domains_) + rows.domains) * (strata.max() + 1) + strata
        return list(fold_splits(codes, min(self.folds, len(units)), check_random_state(self.random_state)))
