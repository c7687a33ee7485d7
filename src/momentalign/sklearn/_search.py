"""Choose L2 and weights inside the training domains, for the estimators with CV in their names.

Two steps instead of a full grid: plain models are cheap, so their L2 is chosen first, and one path of weights at that
L2 follows. The fewer candidates, the less often the best of them is so by luck.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import LeaveOneGroupOut, PredefinedSplit
from sklearn.utils import check_random_state

from momentalign._types import Array
from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear import LinearHead
from momentalign.sklearn._base import FitRows, LinearEstimator, encode_labels

_LOOSER = 10.0
"""Factor of `tol` for the fits inside the search, which are compared only."""

FitSplit = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows to fit and rows to score."""


class Setting(TypedDict):
    """A candidate: the weights, L2, and whether domains count alike in the loss or rows do."""

    gradient_weight: float
    hessian_weight: float
    l2: float
    balanced: bool


class WeightSearch(LinearEstimator):
    """The search, over abstract fits and scores."""

    l2s: Sequence[float]
    selection: str
    rule: str
    scaling: str
    folds: int
    tol: float
    max_iter: int
    random_state: int | np.random.RandomState | None
    callback: Callable[[int, int], None] | None

    @abstractmethod
    def _weights(self) -> list[tuple[float, float]]:
        """Gradient and Hessian weights of the candidates, 0 and 0 among them, smallest first."""

    @abstractmethod
    def _path(self, rows: FitRows, settings: list[Setting], tol: float) -> list[LinearHead]:
        """Fit settings that are all balanced or all not."""

    @abstractmethod
    def _scores(self, head: LinearHead, rows: FitRows) -> Array:
        """Score of a head on each row, larger is better."""

    @abstractmethod
    def _strata(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Classes by which folds are stratified beside the domains."""

    def _calibrate(self, head: LinearHead, rows: FitRows, setting: Setting) -> LinearHead:
        """The head as it is scored."""
        return head

    def _check_parameters(self) -> None:
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("rule", self.rule, ("cautious", "best"))
        check_weight("tol", self.tol)
        check_count("max_iter", self.max_iter, 1)
        check_count("folds", self.folds, 2)
        self._weights()
        self._plain()

    def _plain(self) -> list[Setting]:
        """Candidates without weights."""
        l2s = [check_weight("l2s", l2) for l2 in self.l2s]
        if not l2s:
            raise ValueError("'l2s' should hold at least one value, but is empty.")
        return [Setting(gradient_weight=0.0, hessian_weight=0.0, l2=l2, balanced=False) for l2 in l2s]

    def _search(self, rows: FitRows, groups: ArrayLike | None = None) -> Setting:
        """Choose a setting; sets its attributes, `aligned_`, `candidates_`, `scores_` and `standard_errors_`."""
        chosen = self._choose_setting(rows, groups)
        self.gradient_weight_, self.l2_, self.balanced_ = chosen["gradient_weight"], chosen["l2"], chosen["balanced"]
        self.aligned_ = chosen["gradient_weight"] + chosen["hessian_weight"] > 0
        return chosen

    def _choose_setting(self, rows: FitRows, groups: ArrayLike | None) -> Setting:
        plain, weights = self._plain(), self._weights()
        if rows.domains is None or len(self.domains_) < 2:
            self.candidates_ = [*plain, *_aligned(weights, plain[0]["l2"])]
            self.scores_ = self.standard_errors_ = np.full(len(self.candidates_), np.nan)
            return plain[0]
        units = self._units(rows, groups)
        out = list(LeaveOneGroupOut().split(rows.features, groups=rows.domains))
        folds = self._folds(rows, units)
        # With two domains, leaving one out leaves nothing to align: that chooses L2, but not the weights.
        first = out if self.selection == "leave_one_domain_out" else folds
        second = first if len(self.domains_) > 2 else folds
        worst = self.selection == "worst_group"
        finished, total = count(1), len(first) + len(second) * (1 if second is first else 2)

        def tick() -> None:
            if self.callback is not None:
                self.callback(next(finished), total)

        table = self._table(rows, plain, first, tick)
        reference = choose(table, units, worst=worst, cautious=False).candidate
        if second is not first:
            table = self._table(rows, plain, second, tick)
        aligned = _aligned(weights, plain[reference]["l2"])
        table = np.vstack([table[reference], table, self._table(rows, aligned, second, tick)])
        worst |= len(self.domains_) == 2
        considered = [0, *range(1 + len(plain), len(table))]
        choice = choose(table, units, worst=worst, cautious=self.rule == "cautious", considered=considered)
        self.candidates_ = [*plain, *aligned]
        self.scores_, self.standard_errors_ = choice.scores[1:], choice.errors[1:]
        return plain[reference] if choice.candidate == 0 else self.candidates_[choice.candidate - 1]

    def _table(self, rows: FitRows, settings: list[Setting], splits: list[FitSplit], tick: Callable[[], None]) -> Array:
        """Score of each row under each setting, fitted without the row."""
        table = np.empty((len(settings), len(rows.features)))
        for train, test in splits:
            fitted, scored = rows.take(train), rows.take(test)
            with warnings.catch_warnings():  # only the last fit warns about convergence
                warnings.simplefilter("ignore", ConvergenceWarning)
                heads = self._path(fitted, settings, self.tol * _LOOSER)
            for index, (head, setting) in enumerate(zip(heads, settings, strict=True)):
                table[index, test] = self._scores(self._calibrate(head, fitted, setting), scored)
            tick()
        return table

    def _units(self, rows: FitRows, groups: ArrayLike | None) -> NDArray[np.int64]:
        """Index of each row's domain, or group, over which scores are averaged."""
        assert rows.domains is not None
        if self.selection != "worst_group":
            return rows.domains
        if groups is not None:
            return encode_labels(groups, len(rows.features), name="groups")[1]
        strata = self._strata(rows.targets)
        pairs: NDArray[np.int64] = np.unique(rows.domains * (strata.max() + 1) + strata, return_inverse=True)[1]
        return pairs

    def _folds(self, rows: FitRows, units: NDArray[np.int64]) -> list[FitSplit]:
        assert rows.domains is not None
        strata = self._strata(rows.targets)
        codes = (units * len(self.domains_) + rows.domains) * (strata.max() + 1) + strata
        return stratified_folds(codes, min(self.folds, len(units)), check_random_state(self.random_state))


def _aligned(weights: list[tuple[float, float]], l2: float) -> list[Setting]:
    """Candidates with weights."""
    return [
        Setting(gradient_weight=gradient, hessian_weight=hessian, l2=l2, balanced=True) for gradient, hessian in weights
    ]


def stratified_folds(strata: NDArray[np.int64], folds: int, random: np.random.RandomState) -> list[FitSplit]:
    """Shuffled folds with every stratum spread evenly; unlike for StratifiedKFold, strata may have very few rows."""
    shuffled = random.permutation(len(strata))
    fold = np.empty(len(strata), dtype=np.int64)
    fold[shuffled[np.argsort(strata[shuffled], kind="stable")]] = np.arange(len(strata)) % folds
    return list(PredefinedSplit(fold).split())


class Choice(NamedTuple):
    """The chosen candidate, all candidates' scores, and the standard errors of their gains over the first."""

    candidate: int
    scores: Array
    errors: Array


def choose(
    scores: Array, units: NDArray[np.int64], *, worst: bool, cautious: bool, considered: Sequence[int] | None = None
) -> Choice:
    """Choose the candidate with the largest gain over the first one; ties go to the earlier candidate.

    A cautious choice by the mean over units takes only candidates that lose on no unit: few domains tell little about
    the spread of a gain, but whether it was one everywhere is known. A cautious choice by the worst unit, which may
    differ between candidates, takes only gains that exceed their standard error.

    Args:
        scores: Score of each row under each candidate, larger is better, shape (candidates, n).
        units: Domain or group of each row, 0 … U − 1, shape (n,).
        worst: Score by the worst unit instead of the mean over units.
        cautious: As above.
        considered: Candidates to choose among, the first of all included; None is all.
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
