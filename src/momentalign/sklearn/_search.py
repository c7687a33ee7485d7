"""Choose L2 and weights inside the training domains, for the estimators with CV in their names.

The search starts at scikit-learn's model with its defaults and takes at most two steps, each only on evidence: first
to another L2, for plain models are cheap, then to alignment weights at that L2. The fewer candidates, the less often
the best of them is so by luck.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # ships no types

from momentalign._types import Array
from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear import LinearHead, stratified_folds
from momentalign.sklearn._base import FitRows, LinearEstimator
from momentalign.sklearn._candidates import Setting, explain_steps, format_candidates
from momentalign.sklearn._rule import LEAST_FOLDS, Choice, Verdict, choose_for_worst, choose_step, lose_a_point
from momentalign.sklearn._scoring import Scorer, find_scorer, gain_units, is_error
from momentalign.sklearn._splits import FitSplit, SplitProgress, domain_folds

_LOOSER = 10.0
"""Factor of `tol` for aligned fits inside the search, which are compared only."""

_DOMAIN_FOLDS, _ROW_FOLDS = 10, 5


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
        check_weight("tol", self.tol)
        check_count("max_iter", self.max_iter, 1)
        if self.folds is not None:
            check_count("folds", self.folds, 2 if self.selection == "worst_group" else LEAST_FOLDS)
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
        worst = self.selection == "worst_group"
        self.candidates_, self.outcomes_ = plain[:1], [Verdict.REFERENCE.value]
        self.scores_ = self.standard_errors_ = np.full(1, np.nan)
        self.fold_scores_, self.folds_ = np.empty((1, 0)), []
        domains = len(self.domains_)
        if rows.domains is None or domains < 2 or (domains == 2 and not worst):
            found, least = ("no domains", "one domain", "two domains")[domains], "two" if worst else "three"
            self.reason_ = f"{self.incumbent}'s defaults: {found} to choose by, and at least {least} are needed."
            return plain[0]
        splits = self._row_folds(rows) if worst else self._domain_folds(rows)
        progress = SplitProgress(2 * len(splits), self.callback, verbose=bool(self.verbose))
        evaluate = self._row_scores if worst else self._fold_scores
        table = evaluate(rows, plain, splits, progress)
        first = self._step(table, rows)
        reference = plain[first.candidate]
        aligned = [
            Setting(gradient_weight=gradient, hessian_weight=hessian, l2_factor=reference["l2_factor"], balanced=True)
            for gradient, hessian in self._weights()
        ]
        table = np.vstack([table, evaluate(rows, aligned, splits, progress, table[first.candidate])])
        considered = [first.candidate, *range(len(plain), len(table))]
        second = self._step(table[considered], rows)
        self.candidates_ = [*plain, *aligned]
        self.outcomes_ = [outcome.value for outcome in (*first.outcomes, *second.outcomes[1:])]
        if first.candidate and second.candidate:
            self.outcomes_[first.candidate] = "chosen before alignment"
        self.scores_ = self._means(table, rows)
        self.standard_errors_ = np.concatenate([first.errors, second.errors[1:]])
        self.fold_scores_ = np.empty((len(table), 0)) if worst else table
        taken = [(reference, first), (self.candidates_[considered[second.candidate]], second)]
        self.reason_ = self._reason([(setting, step) for setting, step in taken if step.candidate], len(splits))
        chosen: Setting = self.candidates_[considered[second.candidate]]
        return chosen

    def _step(self, table: Array, rows: FitRows) -> Choice:
        """Apply the rule to the scores of some candidates."""
        cautious = self.rule == "cautious"
        if self.selection == "worst_group":
            return choose_for_worst(table, self._groups(rows), cautious=cautious)
        return choose_step(table, gain_units(self._scorer(), table[0]), cautious=cautious)

    def _means(self, table: Array, rows: FitRows) -> Array:
        """Score of each candidate: mean over folds, or of the worst group; NaN where a candidate was dropped."""
        if self.selection == "worst_group":
            groups = self._groups(rows)
            each = [table[:, groups == group].mean(1) for group in range(int(groups.max()) + 1)]
            lowest: Array = np.min(each, axis=0)
            return lowest
        means: Array = table[:, np.isfinite(table[0])].mean(1) if np.isfinite(table[0]).any() else table[:, 0]
        return means

    def _fold_scores(
        self,
        rows: FitRows,
        settings: list[Setting],
        splits: list[FitSplit],
        progress: SplitProgress,
        reference: Array | None = None,
    ) -> Array:
        """Score of each setting on each left-out fold, (m, F).

        A setting that loses more than a point against the reference cannot be chosen any more: the folds are scored in
        waves of 1, 2, 4, …, and after each of them such settings are dropped. Their other scores are NaN.
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
                lost = lose_a_point(np.vstack([reference, table]), gain_units(self._scorer(), reference))[1:]
                alive = [index for index in alive if not lost[index]]
            if not alive:
                progress.skip(len(splits) - first)
                break
        return table

    def _row_scores(
        self,
        rows: FitRows,
        settings: list[Setting],
        splits: list[FitSplit],
        progress: SplitProgress,
        reference: Array | None = None,
    ) -> Array:
        """Whether each setting, fitted without the row's fold, predicts it: (m, n)."""
        table = np.empty((len(settings), len(rows.features)))
        for (_, test), hits in zip(splits, self._run(rows, settings, splits, progress), strict=True):
            table[:, test] = hits
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

    def _score(self, head: LinearHead, rows: FitRows) -> Any:
        """Score of a head on left-out rows: a number, NaN where undefined; for groups whether it predicts each row."""
        fitted: Any = copy(self)
        fitted.__dict__.pop("feature_names_in_", None)
        fitted._store(head)
        targets = self._labels(rows.targets)
        if self.selection == "worst_group":
            return (fitted.predict(rows.features) == targets).astype(np.float64)
        try:
            return float(self._scorer()(fitted, rows.features, targets))
        except ValueError:
            # Ranking scores need rows of all classes.
            if len(np.unique(self._strata(rows.targets))) < len(getattr(self, "classes_", [0])):
                return np.nan
            raise

    def _domain_folds(self, rows: FitRows) -> list[FitSplit]:
        """Each domain left out in turn, or folds of domains; sets `folds_`."""
        assert rows.domains is not None
        splits = domain_folds(rows.domains, self.folds or _DOMAIN_FOLDS)
        self.folds_ = [self.domains_[np.unique(rows.domains[test])].tolist() for _, test in splits]
        return splits

    def _row_folds(self, rows: FitRows) -> list[FitSplit]:
        """Folds of rows, stratified by group, domain and class."""
        assert rows.domains is not None
        groups, strata = self._groups(rows), self._strata(rows.targets)
        codes = (groups * len(self.domains_) + rows.domains) * (strata.max() + 1) + strata
        number = min(self.folds or _ROW_FOLDS, len(codes))
        return stratified_folds(codes, number, check_random_state(self.random_state))

    def _groups(self, rows: FitRows) -> NDArray[np.int64]:
        """Index of each row's group; by default the pairs of domain and class that occur."""
        assert rows.domains is not None
        if rows.groups is not None:
            return rows.groups
        strata = self._strata(rows.targets)
        pairs: NDArray[np.int64] = np.unique(rows.domains * (strata.max() + 1) + strata, return_inverse=True)[1]
        return pairs

    def _reason(self, taken: list[tuple[Setting, Choice]], folds: int) -> str:
        """What was chosen, and the evidence for each step that was taken."""
        if self.selection == "worst_group":
            metric, where = "accuracy of the worst group", f"{folds} held-out folds"
        else:
            metric = str(getattr(self.scoring, "__name__", self.scoring or self._default_scoring()))
            where = f"{folds} left-out {'domains' if folds == len(self.domains_) else 'folds of domains'}"
        if taken:
            return explain_steps(self.incumbent, taken, metric, where, relative=is_error(self._scorer()))
        loss = "" if self.selection == "worst_group" else " without losing a point on one of them"
        return (
            f"{self.incumbent}'s defaults: none of {len(self.candidates_) - 1} candidates gained more than a standard "
            f"error in {metric} on {where}{loss}."
        )


def _score_split(search: WeightSearch, rows: FitRows, settings: list[Setting], split: FitSplit) -> list[Any]:
    """Fit settings on one part of the rows and score them on another."""
    fitted, scored = rows.take(split[0]), rows.take(split[1])
    tol = search.tol * _LOOSER if settings[0]["balanced"] else search.tol
    heads = search._path(fitted, settings, tol)
    return [
        search._score(search._calibrate(head, fitted, setting), scored)
        for head, setting in zip(heads, settings, strict=True)
    ]
