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
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # ships no types

from momentalign._types import Array
from momentalign._validation import SCALINGS, check_choice, check_count, check_nonnegative, check_weight
from momentalign.linear import LinearHead
from momentalign.sklearn._base import FitRows, LinearEstimator
from momentalign.sklearn._candidates import Setting, explain_steps, format_candidates
from momentalign.sklearn._rule import LEAST_FOLDS, Choice, Verdict, choose_step, lose_too_often
from momentalign.sklearn._scoring import Scorer, find_scorer, gain_units, is_error
from momentalign.sklearn._splits import FitSplit, SplitProgress, domain_folds

LOOSER = 10.0
"""Factor of `tol` for aligned fits inside the search, which are compared only."""

_DOMAIN_FOLDS = 10


class WeightSearch(LinearEstimator):
    """The search, over abstract fits and scores."""

    l2_factors: Sequence[float]
    selection: str
    scoring: str | Scorer | None
    rule: str
    folds: int | None
    scaling: str
    tol: float
    max_iter: int
    n_jobs: int | None
    random_state: int | np.random.RandomState | None
    verbose: int
    callback: Callable[[int, int], None] | None

    incumbent: str
    """scikit-learn's estimator with its defaults."""

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

    @abstractmethod
    def _default_scoring(self) -> str:
        """Name of the score where `scoring` is None."""

    def _strata(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Classes by which folds are stratified beside the domains."""
        return np.zeros(len(targets), dtype=np.int64)

    def _calibrate(self, head: LinearHead, rows: FitRows, setting: Setting) -> LinearHead:
        """The head as it is scored."""
        return head

    def _check_parameters(self) -> None:
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("rule", self.rule, ("cautious", "best"))
        check_nonnegative("tol", self.tol)
        check_count("max_iter", self.max_iter, 1)
        if self.folds is not None:
            check_count("folds", self.folds, self._least_folds())
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
        return find_scorer(self, self._default_scoring() if self.scoring is None else self.scoring)

    def _search(self, rows: FitRows) -> Setting:
        """Choose a setting; sets the attributes that describe the choice, and prints them where asked to."""
        chosen = self._choose_setting(rows)
        self.gradient_weight_, self.balanced_ = chosen["gradient_weight"], chosen["balanced"]
        self.l2_factor_, self.l2_ = chosen["l2_factor"], chosen["l2_factor"] * rows.unit_l2
        self.aligned_ = chosen["gradient_weight"] + chosen["hessian_weight"] > 0
        if self.verbose:
            print(format_candidates(self.candidates_, self.scores_, self.standard_errors_, self.outcomes_))
            print(self.reason_)
        return chosen

    def _choose_setting(self, rows: FitRows) -> Setting:
        plain = self._plain()
        self.candidates_, self.outcomes_ = plain[:1], [Verdict.REFERENCE.value]
        self.scores_ = self.standard_errors_ = np.full(1, np.nan)
        self.fold_scores_, self.folds_ = np.empty((1, 0)), []
        missing = self._lacks(rows)
        if missing:
            self.reason_ = f"{self.incumbent}'s defaults: {missing}."
            return plain[0]
        splits = self._splits(rows)
        progress = SplitProgress(2 * len(splits), self.callback, verbose=bool(self.verbose))
        table = self._evaluate(rows, plain, splits, progress)
        first = self._step(table, rows)
        reference = plain[first.candidate]
        others = [*self._aligned(rows, reference["l2_factor"]), *self._others(rows, reference["l2_factor"])]
        table = np.vstack([table, self._evaluate(rows, others, splits, progress, table[first.candidate])])
        considered = [first.candidate, *range(len(plain), len(table))]
        second = self._step(table[considered], rows)
        self.candidates_ = [*plain, *others]
        self.outcomes_ = [str(outcome) for outcome in (*first.outcomes, *second.outcomes[1:])]
        if first.candidate and second.candidate:
            self.outcomes_[first.candidate] = "chosen in the first step"
        self.scores_ = self._means(table, rows)
        self.standard_errors_ = np.concatenate([first.errors, second.errors[1:]])
        self.fold_scores_ = self._by_fold(table)
        taken = [(reference, first), (self.candidates_[considered[second.candidate]], second)]
        self.reason_ = self._reason([(setting, step) for setting, step in taken if step.candidate], len(splits))
        chosen: Setting = self.candidates_[considered[second.candidate]]
        return chosen

    def _aligned(self, rows: FitRows, l2_factor: float) -> list[Setting]:
        """Candidates that weight all domains equally, alone and with an alignment weight."""
        return [
            Setting(gradient_weight=gradient, hessian_weight=hessian, l2_factor=l2_factor, balanced=True)
            for gradient, hessian in self._weights()
        ]

    def _least_folds(self) -> int:
        return LEAST_FOLDS

    def _tolerated(self, reference: Array) -> int:
        """Number of folds on which a step may lose more than a point, given the reference's scores (F,)."""
        return 0

    def _lacks(self, rows: FitRows) -> str:
        """What is missing to choose by, or nothing."""
        number = len(self.domains_)
        if number > LEAST_FOLDS - 1:
            return ""
        return f"{('no domains', 'one domain', 'two domains')[number]} to choose by, and at least three are needed"

    def _splits(self, rows: FitRows) -> list[FitSplit]:
        """Each domain left out in turn, or folds of domains; sets `folds_`."""
        assert rows.domains is not None
        splits = domain_folds(rows.domains, self.folds or _DOMAIN_FOLDS)
        self.folds_ = [self.domains_[np.unique(rows.domains[test])].tolist() for _, test in splits]
        return splits

    def _step(self, table: Array, rows: FitRows) -> Choice:
        """Apply the rule to the scores of some candidates."""
        units, tolerated = gain_units(self._scorer(), table[0]), self._tolerated(table[0])
        return choose_step(table, units, tolerated=tolerated, cautious=self.rule == "cautious")

    def _means(self, table: Array, rows: FitRows) -> Array:
        """Mean score of each candidate over the folds; NaN where a candidate was dropped."""
        means: Array = table[:, np.isfinite(table[0])].mean(1) if np.isfinite(table[0]).any() else table[:, 0]
        return means

    def _by_fold(self, table: Array) -> Array:
        """Score of each candidate on each fold, (m, F)."""
        return table

    def _evaluate(
        self,
        rows: FitRows,
        settings: list[Setting],
        splits: list[FitSplit],
        progress: SplitProgress,
        reference: Array | None = None,
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
            scores = self._run(rows, [settings[index] for index in alive], splits[wave], progress)
            table[alive, wave] = np.transpose(scores)
            first, size = first + size, 2 * size
            if drop and reference is not None:
                units, tolerated = gain_units(self._scorer(), reference), self._tolerated(reference)
                lost = lose_too_often(np.vstack([reference, table]), units, tolerated)[1:]
                alive = [index for index in alive if not lost[index]]
            if not alive:
                progress.skip(len(splits) - first)
                break
        return table

    def _run(
        self, rows: FitRows, settings: list[Setting], splits: Sequence[FitSplit], progress: SplitProgress
    ) -> list[list[Any]]:
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
                progress.tick()
        return results

    def _score_heads(self, fitted: FitRows, scored: FitRows, settings: list[Setting]) -> list[Any]:
        """Fit settings on some rows and score them on others."""
        heads: list[LinearHead] = []
        for balanced, members in groupby(settings, key=lambda setting: setting["balanced"]):
            heads += self._path(fitted, list(members), self.tol * LOOSER if balanced else self.tol)
        return [
            self._score(self._calibrate(head, fitted, setting), scored)
            for head, setting in zip(heads, settings, strict=True)
        ]

    def _score(self, head: LinearHead, rows: FitRows) -> Any:
        """Score of a head on left-out rows, NaN where undefined."""
        fitted: Any = copy(self)
        fitted.__dict__.pop("feature_names_in_", None)
        fitted._store(head)
        try:
            return float(self._scorer()(fitted, rows.features, self._labels(rows.targets)))
        except ValueError:
            # Ranking scores need rows of all classes.
            if len(np.unique(self._strata(rows.targets))) < len(getattr(self, "classes_", [0])):
                return np.nan
            raise

    def _evidence(self, folds: int) -> tuple[str, str]:
        """Name of the score, and where it was measured."""
        default = self._default_scoring().removeprefix("neg_").replace("_", " ")
        metric = str(getattr(self.scoring, "__name__", self.scoring or default))
        return metric, f"{folds} left-out {'domains' if folds == len(self.domains_) else 'folds of domains'}"

    def _reason(self, taken: list[tuple[Setting, Choice]], folds: int) -> str:
        """What was chosen, and the evidence for each step that was taken."""
        metric, where = self._evidence(folds)
        if taken:
            return explain_steps(self.incumbent, taken, metric, where, relative=is_error(self._scorer()))
        point, least = ("1%", "0.1%") if is_error(self._scorer()) else ("a point", "0.1 points")
        tolerated = self._tolerated(self.fold_scores_[0])
        few = f"more than {tolerated}" if tolerated else "one"
        loss = f" without losing {point} on {few} of them" if self.folds_ else ""
        return (
            f"{self.incumbent}'s defaults: none of {len(self.candidates_) - 1} candidates gained more than a standard "
            f"error{f' and {least}' if self.folds_ else ''} in {metric} on {where}{loss}."
        )


def _score_split(search: WeightSearch, rows: FitRows, settings: list[Setting], split: FitSplit) -> list[Any]:
    return search._score_heads(rows.take(split[0]), rows.take(split[1]), settings)
