"""Choose L2 and weights inside the training domains, for the estimators with CV in their names.

The search starts at scikit-learn's model with its defaults and takes at most two steps, each only on evidence: first
to another L2, for plain models are cheap, then to another loss or model at that L2. The fewer candidates, the less
often the best of them is so by luck.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from itertools import groupby
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # ships no types

from momentalign._types import Array
from momentalign._validation import check_choice, check_count, check_weight
from momentalign.linear import LinearHead
from momentalign.sklearn._base import FitRows, LinearEstimator
from momentalign.sklearn._rule import (
    LEAST_FOLDS,
    Choice,
    Scorer,
    Verdict,
    choose_step,
    find_scorer,
    gain_units,
    is_error,
    lose_too_often,
)

_LOOSER = 10.0
"""Factor of `tol` for aligned fits inside the search, which are compared only."""

_DOMAIN_FOLDS = 10

FitSplit = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows to fit and rows to score."""


class Setting(TypedDict):
    """A candidate: the weights, L2 in units of scikit-learn's default, and whether the loss weights domains equally.

    `domain_intercepts` is true for a model fitted with an intercept for each domain; other candidates have none.
    """

    gradient_weight: float
    hessian_weight: float
    l2_factor: float
    balanced: bool
    domain_intercepts: NotRequired[bool]


class WeightSearch(LinearEstimator):
    """The search, over abstract scores."""

    l2_factors: Sequence[float]
    scoring: str | Scorer | None
    rule: str
    folds: int | None
    n_jobs: int | None
    callback: Callable[[int, int], None] | None

    incumbent: str
    """scikit-learn's estimator with its defaults."""

    default_scoring: str
    """Name of the score where `scoring` is None."""

    candidates_: list[Setting]
    outcomes_: list[str]
    folds_: list[list[Any]]

    @abstractmethod
    def _weights(self) -> list[tuple[float, float]]:
        """Gradient and Hessian weights of the candidates, 0 and 0 among them, smallest first."""

    def _others(self, rows: FitRows, l2_factor: float) -> list[Setting]:
        """Candidates of the second step besides the aligned ones, at the chosen L2."""
        return []

    @abstractmethod
    def _labels(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Targets as `fit` was given them."""

    def _calibrate(self, head: LinearHead, rows: FitRows, setting: Setting) -> tuple[LinearHead, float]:
        """The head as it is scored, and the factor of its length."""
        return head, 1.0

    def _tolerated(self, reference: Array) -> int:
        """Number of folds on which a step may lose more than a point, given the reference's scores (F,)."""
        return 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("rule", self.rule, ("cautious", "best"))
        if self.folds is not None:
            check_count("folds", self.folds, LEAST_FOLDS)
        self._weights()
        self._plain()
        self._scorer()

    def _plain(self) -> list[Setting]:
        """Candidates without weights, the incumbent first, then in order of their distance from it."""
        factors = {check_weight("l2_factors", factor) for factor in self.l2_factors} - {1.0}
        ranked = sorted(factors, key=lambda factor: (abs(np.log(max(factor, 1e-300))), factor))
        return [
            Setting(gradient_weight=0.0, hessian_weight=0.0, l2_factor=factor, balanced=False)
            for factor in (1.0, *ranked)
        ]

    def _scorer(self) -> Scorer:
        return find_scorer(self, self.scoring or self.default_scoring)

    def _path(self, rows: FitRows, settings: Sequence[Setting], tol: float) -> list[LinearHead]:
        """Fit settings that are all balanced or all not."""
        width = rows.features.shape[1]
        if settings[0].get("domain_intercepts"):
            # Under L2 the coefficients of the domains' indicator columns sum to zero beside an intercept, which is then
            # the mean over domains.
            assert rows.domains is not None
            indicators = rows.domains[:, None] == np.unique(rows.domains)
            rows = rows._replace(features=np.hstack([rows.features, indicators]))
        if not settings[0]["balanced"]:
            rows = rows._replace(domains=None)
        weights = [(setting["gradient_weight"], setting["hessian_weight"]) for setting in settings]
        heads = self._heads(rows, weights, [setting["l2_factor"] * rows.unit_l2 for setting in settings], tol)
        return [replace(head, coef=head.coef[:, :width]) for head in heads]

    def _fit(self, rows: FitRows) -> None:
        chosen = self._choose_setting(rows)
        self.gradient_weight_, self.hessian_weight_ = chosen["gradient_weight"], chosen["hessian_weight"]
        self.l2_factor_, self.l2_ = chosen["l2_factor"], chosen["l2_factor"] * rows.unit_l2
        self.balanced_, self.domain_intercepts_ = chosen["balanced"], chosen.get("domain_intercepts", False)
        self.aligned_ = self.gradient_weight_ + self.hessian_weight_ > 0
        (fitted,) = self._path(rows, [chosen], self.tol)
        head, self.scale_ = self._calibrate(fitted, rows, chosen)
        self._store(head)

    def _choose_setting(self, rows: FitRows) -> Setting:
        """Choose a setting; sets the attributes that describe the choice."""
        plain, number = self._plain(), len(self.domains_)
        self.candidates_, self.outcomes_ = plain[:1], [Verdict.REFERENCE.value]
        self.scores_ = self.standard_errors_ = np.full(1, np.nan)
        self.fold_scores_, self.folds_ = np.empty((1, 0)), []
        if number < LEAST_FOLDS:
            found = ("no domains", "one domain", "two domains")[number]
            self.reason_ = f"{self.incumbent}'s defaults: {found} to choose by, and at least three are needed."
            return plain[0]
        splits = self._splits(rows)
        self._done, self._total = 0, 2 * len(splits)
        table = self._evaluate(rows, plain, splits)
        first = self._step(table)
        reference = plain[first.candidate]
        factor = reference["l2_factor"]
        others = [
            Setting(gradient_weight=gradient, hessian_weight=hessian, l2_factor=factor, balanced=True)
            for gradient, hessian in self._weights()
        ] + self._others(rows, factor)
        self.candidates_ = [*plain, *others]
        self.fold_scores_ = np.vstack([table, self._evaluate(rows, others, splits, table[first.candidate])])
        considered = [first.candidate, *range(len(plain), len(self.candidates_))]
        second = self._step(self.fold_scores_[considered])
        self.outcomes_ = [str(outcome) for outcome in (*first.outcomes, *second.outcomes[1:])]
        if first.candidate and second.candidate:
            self.outcomes_[first.candidate] = "chosen in the first step"
        scored = np.isfinite(self.fold_scores_[0])
        self.scores_ = self.fold_scores_[:, scored].mean(1) if scored.any() else self.fold_scores_[:, 0]
        self.standard_errors_ = np.concatenate([first.errors, second.errors[1:]])
        chosen: Setting = self.candidates_[considered[second.candidate]]
        taken = [(setting, step) for setting, step in ((reference, first), (chosen, second)) if step.candidate]
        self.reason_ = self._reason(taken, len(splits))
        return chosen

    def _splits(self, rows: FitRows) -> list[FitSplit]:
        """Each domain left out in turn, in order, or folds of domains with about as many rows each; sets `folds_`."""
        assert rows.domains is not None
        codes, number, most = rows.domains, len(self.domains_), self.folds or _DOMAIN_FOLDS
        splits: list[FitSplit] = list(GroupKFold(min(most, number)).split(codes, groups=codes))
        if number <= most:
            splits.sort(key=lambda split: codes[split[1][0]])
        self.folds_ = [self.domains_[np.unique(codes[test])].tolist() for _, test in splits]
        return splits

    def _step(self, table: Array) -> Choice:
        """Apply the rule to the scores of some candidates."""
        units, tolerated = gain_units(self._scorer(), table[0]), self._tolerated(table[0])
        return choose_step(table, units, tolerated=tolerated, cautious=self.rule == "cautious")

    def _evaluate(
        self, rows: FitRows, settings: list[Setting], splits: list[FitSplit], reference: Array | None = None
    ) -> Array:
        """Score of each setting on each left-out fold, (m, F).

        A setting that has lost more than a point against the reference too often cannot be chosen any more: the folds
        are scored in waves of 1, 2, 4, …, and after each of them such settings are dropped. Their other scores are NaN.
        """
        table = np.full((len(settings), len(splits)), np.nan)
        alive = np.arange(len(settings))
        against = reference if self.rule == "cautious" else None
        first, size = 0, len(splits) if against is None else 1
        while first < len(splits) and len(alive):
            wave = slice(first, first + size)
            table[alive, wave] = np.transpose(self._run(rows, [settings[index] for index in alive], splits[wave]))
            first, size = first + size, 2 * size
            if against is not None:
                units, tolerated = gain_units(self._scorer(), against), self._tolerated(against)
                alive = alive[~lose_too_often(np.vstack([against, table]), units, tolerated)[1:][alive]]
        self._tick(len(splits) - first)
        return table

    def _tick(self, splits: int = 1) -> None:
        """Report splits that are done, or have become needless."""
        for _ in range(splits):
            self._done += 1
            if self.callback is not None:
                self.callback(self._done, self._total)

    def _run(self, rows: FitRows, settings: list[Setting], splits: Sequence[FitSplit]) -> list[list[float]]:
        """Fit and score the settings on each split, `n_jobs` splits at a time; in the order of the splits."""
        worker = copy(self)
        worker.callback = None  # may not be sendable to another process
        # Threads: the work is in BLAS, and other processes would have to import everything first.
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        one_thread = threadpool_limits(1, user_api="blas") if self.n_jobs not in (None, 1) else nullcontext()
        results = []
        # Warnings are switched off here, not in each thread: only the last fit warns about convergence.
        with warnings.catch_warnings(), one_thread:
            warnings.simplefilter("ignore")
            for result in parallel(delayed(_score_split)(worker, rows, settings, split) for split in splits):
                results.append(result)
                self._tick()
        return results

    def _score(self, head: LinearHead, rows: FitRows) -> float:
        """Score of a head on left-out rows, NaN where undefined."""
        fitted: Any = copy(self)
        fitted.__dict__.pop("feature_names_in_", None)
        fitted._store(head)
        try:
            return float(self._scorer()(fitted, rows.features, self._labels(rows.targets)))
        except ValueError:
            # Ranking scores need rows of all classes.
            if len(np.unique(rows.targets)) < len(getattr(self, "classes_", ())):
                return np.nan
            raise

    def _reason(self, taken: list[tuple[Setting, Choice]], folds: int) -> str:
        """What was chosen, and the evidence for each step that was taken: gains in points, or in % of an error."""
        default = self.default_scoring.removeprefix("neg_").replace("_", " ")
        metric = str(getattr(self.scoring, "__name__", self.scoring or default))
        where = f"in {metric} on {folds} left-out {'domains' if folds == len(self.domains_) else 'folds of domains'}"
        error = is_error(self._scorer())
        parts = []
        for setting, step in taken:
            gain, deviation = step.gains[step.candidate], step.errors[step.candidate]
            points = f"{100 * gain:.2f} ± {100 * deviation:.2f} points"
            parts.append(f"{_describe(setting)} gained {f'{gain:.2%} ± {deviation:.2%}' if error else points}")
        if parts:
            return f"Changed from {self.incumbent}'s defaults: {', then '.join(parts)}, {where}."
        point, least = ("1%", "0.1%") if error else ("a point", "0.1 points")
        tolerated = self._tolerated(self.fold_scores_[0])
        return (
            f"{self.incumbent}'s defaults: none of {len(self.candidates_) - 1} candidates gained more than a standard "
            f"error and {least} {where} without losing {point} on "
            f"{f'more than {tolerated}' if tolerated else 'one'} of them."
        )


def _describe(setting: Setting) -> str:
    """What distinguishes a setting from a plain model of the same L2, or its L2."""
    named = (("gradient", setting["gradient_weight"]), ("Hessian", setting["hessian_weight"]))
    changes = [f"{name} weight {weight:g}" for name, weight in named if weight]
    if setting.get("domain_intercepts"):
        changes.append("an intercept for each domain")
    elif setting["balanced"] and not changes:
        changes.append("domains weighted equally")
    return ", ".join(changes) or f"L2 {setting['l2_factor']:g}/n"


def _score_split(search: WeightSearch, rows: FitRows, settings: list[Setting], split: FitSplit) -> list[float]:
    """Fit settings on some rows and score them on others."""
    fitted, scored = rows.take(split[0]), rows.take(split[1])
    heads: list[LinearHead] = []
    for balanced, members in groupby(settings, key=lambda setting: setting["balanced"]):
        heads += search._path(fitted, list(members), search.tol * _LOOSER if balanced else search.tol)
    calibrated = (search._calibrate(head, fitted, setting) for head, setting in zip(heads, settings, strict=True))
    return [search._score(head, scored) for head, _ in calibrated]
