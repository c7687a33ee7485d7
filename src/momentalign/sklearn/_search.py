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
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # ships no types

from momentalign._types import Array
from momentalign._validation import SCALINGS, check_choice, check_count, check_nonnegative, check_weight
from momentalign.linear import LinearHead
from momentalign.sklearn._base import FitRows, LinearEstimator
from momentalign.sklearn._candidates import Setting, explain_steps
from momentalign.sklearn._rule import LEAST_FOLDS, Choice, Verdict, choose_step, lose_too_often
from momentalign.sklearn._scoring import Scorer, find_scorer, gain_units, is_error

_LOOSER = 10.0
"""Factor of `tol` for aligned fits inside the search, which are compared only."""

_DOMAIN_FOLDS = 10

FitSplit = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows to fit and rows to score."""


class WeightSearch(LinearEstimator):
    """The search, over abstract fits and scores."""

    l2_factors: Sequence[float]
    scoring: str | Scorer | None
    rule: str
    folds: int | None
    scaling: str
    tol: float
    max_iter: int
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
    def _path(self, rows: FitRows, settings: Sequence[Setting], tol: float) -> list[LinearHead]:
        """Fit settings that are all balanced or all not."""

    @abstractmethod
    def _labels(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Targets as `fit` was given them."""

    def _calibrate(self, head: LinearHead, rows: FitRows, setting: Setting) -> LinearHead:
        """The head as it is scored."""
        return head

    def _tolerated(self, reference: Array) -> int:
        """Number of folds on which a step may lose more than a point, given the reference's scores (F,)."""
        return 0

    def _check_parameters(self) -> None:
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("rule", self.rule, ("cautious", "best"))
        check_nonnegative("tol", self.tol)
        check_count("max_iter", self.max_iter, 1)
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

    def _search(self, rows: FitRows) -> Setting:
        """Choose a setting; sets the attributes that describe the choice."""
        chosen = self._choose_setting(rows)
        self.gradient_weight_, self.balanced_ = chosen["gradient_weight"], chosen["balanced"]
        self.l2_factor_, self.l2_ = chosen["l2_factor"], chosen["l2_factor"] * rows.unit_l2
        self.aligned_ = chosen["gradient_weight"] + chosen["hessian_weight"] > 0
        return chosen

    def _choose_setting(self, rows: FitRows) -> Setting:
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
        ]
        others += self._others(rows, factor)
        table = np.vstack([table, self._evaluate(rows, others, splits, table[first.candidate])])
        considered = [first.candidate, *range(len(plain), len(table))]
        second = self._step(table[considered])
        self.candidates_ = [*plain, *others]
        self.outcomes_ = [str(outcome) for outcome in (*first.outcomes, *second.outcomes[1:])]
        if first.candidate and second.candidate:
            self.outcomes_[first.candidate] = "chosen in the first step"
        scored = np.isfinite(table[0])
        self.scores_ = table[:, scored].mean(1) if scored.any() else table[:, 0]
        self.standard_errors_ = np.concatenate([first.errors, second.errors[1:]])
        self.fold_scores_ = table
        chosen: Setting = self.candidates_[considered[second.candidate]]
        taken = [(setting, step) for setting, step in ((reference, first), (chosen, second)) if step.candidate]
        self.reason_ = self._reason(taken, len(splits))
        return chosen

    def _splits(self, rows: FitRows) -> list[FitSplit]:
        """Each domain left out in turn, in order, or folds of domains with about as many rows each; sets `folds_`."""
        assert rows.domains is not None
        number, most = len(self.domains_), self.folds or _DOMAIN_FOLDS
        splits: list[FitSplit] = list(GroupKFold(min(most, number)).split(rows.domains, groups=rows.domains))
        if number <= most:
            codes = rows.domains
            splits.sort(key=lambda split: codes[split[1][0]])
        self.folds_ = [self.domains_[np.unique(rows.domains[test])].tolist() for _, test in splits]
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
        alive = list(range(len(settings)))
        drop = reference is not None and self.rule == "cautious"
        first, size = 0, 1 if drop else len(splits)
        while first < len(splits):
            wave = slice(first, first + size)
            scores = self._run(rows, [settings[index] for index in alive], splits[wave])
            table[alive, wave] = np.transpose(scores)
            first, size = first + size, 2 * size
            if drop and reference is not None:
                units, tolerated = gain_units(self._scorer(), reference), self._tolerated(reference)
                lost = lose_too_often(np.vstack([reference, table]), units, tolerated)[1:]
                alive = [index for index in alive if not lost[index]]
            if not alive:
                self._tick(len(splits) - first)
                break
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
        """What was chosen, and the evidence for each step that was taken."""
        default = self.default_scoring.removeprefix("neg_").replace("_", " ")
        metric = str(getattr(self.scoring, "__name__", self.scoring or default))
        where = f"{folds} left-out {'domains' if folds == len(self.domains_) else 'folds of domains'}"
        error = is_error(self._scorer())
        if taken:
            return explain_steps(self.incumbent, taken, metric, where, relative=error)
        point, least = ("1%", "0.1%") if error else ("a point", "0.1 points")
        tolerated = self._tolerated(self.fold_scores_[0])
        return (
            f"{self.incumbent}'s defaults: none of {len(self.candidates_) - 1} candidates gained more than a standard "
            f"error and {least} in {metric} on {where} without losing {point} on "
            f"{f'more than {tolerated}' if tolerated else 'one'} of them."
        )


def _score_split(search: WeightSearch, rows: FitRows, settings: list[Setting], split: FitSplit) -> list[float]:
    """Fit settings on some rows and score them on others."""
    fitted, scored = rows.take(split[0]), rows.take(split[1])
    heads: list[LinearHead] = []
    for balanced, members in groupby(settings, key=lambda setting: setting["balanced"]):
        heads += search._path(fitted, list(members), search.tol * _LOOSER if balanced else search.tol)
    calibrated = (search._calibrate(head, fitted, setting) for head, setting in zip(heads, settings, strict=True))
    return [search._score(head, scored) for head in calibrated]
