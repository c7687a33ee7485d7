"""Fit a moment-aligned linear model to a table, and compare it with a plain one on held-out rows."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from momentalign._types import Array, Integers, ReportProgress, ignore_progress
from momentalign.sklearn import (
    GroupReport,
    GroupRobustClassifier,
    MomentAlignedClassifier,
    MomentAlignedClassifierCV,
    MomentAlignedRegressor,
    MomentAlignedRegressorCV,
)
from momentalign.tables._columns import TableEncoder, fit_encoder
from momentalign.tables._held_out import Fold, TableScores, measure_groups, score_predictions
from momentalign.tables._model import SOURCE, TableModel, check_same_model
from momentalign.tables._plain_fits import plain_estimator
from momentalign.tables._table import Table
from momentalign.tables._timing import seconds_of, threads_for

_SAMPLE = 2000
"""Rows from which the time of a fit is estimated."""
_SEARCH_FOLDS = 10
"""Most folds of a search."""


@dataclass(frozen=True, eq=False)
class TableResult:
    """Scores of both models on held-out rows, the aligned model, its chosen weights and why, notes on the test rows."""

    scores: TableScores
    model: TableModel
    chosen: dict[str, Any]
    reason: str
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TableProbe:
    """A planned probe of a table, from :func:`plan_probe`; `lines` describes it and :meth:`run` executes it.

    `classes` is None for a regression, and `targets` (n,) holds class indices or numbers. The saved model is fitted on
    `rows`, whose `features` (m, k) come from `encoder`; `about` is stored with it.
    """

    table: Table
    classes: tuple[str, ...] | None
    targets: NDArray[Any]
    folds: list[Fold]
    rows: Integers
    encoder: TableEncoder
    features: Array
    components: int | None
    seed: int
    lines: list[str]
    about: dict[str, Any]

    def check_output(self, out: Path) -> None:
        """Raise ValueError if a folder holds another model than this plan's."""
        check_same_model(out, self.about[SOURCE])

    def seconds(self) -> float:
        """Estimate the seconds that :meth:`run` takes from fits on a sample: to a factor of three."""
        step = max(1, len(self.rows) // _SAMPLE)
        rows = self.rows[::step]
        estimator = (
            MomentAlignedRegressor(gradient_weight=1.0)
            if self.classes is None
            else MomentAlignedClassifier(gradient_weight=1.0, tol=1e-5, max_iter=100)
        )
        sample = self.features[::step], self.targets[rows]
        with warnings.catch_warnings(), threads_for(self.features.size):
            warnings.simplefilter("ignore", ConvergenceWarning)
            seconds = seconds_of(lambda: estimator.fit(*sample, domains=self.table.domains[rows]))
        return seconds * step * sum(map(self._search_fits, self._searches()))

    def run(self, progress: ReportProgress | None = None) -> TableResult:
        """Fit both models on each fold and score them; fit the model to save on all training rows."""
        searches, report = len(self._searches()), progress or ignore_progress
        plain_name = "ridge" if self.classes is None else "logistic regression"
        predictions: tuple[list[Array], list[Array]] = ([], [])  # of the plain and of the chosen models
        notes: list[str] = []
        for index, fold in enumerate(self.folds):
            encoder, features = self.encoder, self.features
            if searches > 1:
                encoder, encoded, _ = fit_encoder(self.table.features.iloc[fold.train], self.components)
                features = encoder.transform(encoded.matrix)
            watch = _watch_search(report, fold.name, index, searches)
            with threads_for(features.size):
                model, chosen, reason = self._fit_aligned(encoder, features, fold.train, watch)
                plain = self._fit_plain(encoder, features, fold.train)
            watch(1, 1)
            test = encoder.encode(self.table.features.iloc[fold.test])
            # With every domain left out in turn, all missing values have been reported by the plan.
            alone = searches == 1
            notes += test.describe("test rows" if alone else f"'{fold.name}'", missing=alone)
            for predicted, one in zip(predictions, (plain, model), strict=True):
                predicted.append(self._predict(one, test.matrix))
        if searches > 1:
            watch = _watch_search(report, "all domains", searches - 1, searches)
            with threads_for(self.features.size):
                model, chosen, reason = self._fit_aligned(self.encoder, self.features, self.rows, watch)
            watch(1, 1)
        test_rows = np.concatenate([fold.test for fold in self.folds])
        names = (plain_name, "chosen model")
        outputs = {name: np.concatenate(parts) for name, parts in zip(names, predictions, strict=True)}
        classify = self.classes is not None
        scores = score_predictions(
            self.targets[test_rows],
            {name: output.argmax(1) if classify else output[:, 0] for name, output in outputs.items()},
            self.table.domains[test_rows],
            self._measure_groups(test_rows, outputs),
            classify=classify,
        )
        model = replace(model, about={**self.about, "chosen": chosen, "reason": reason})
        return TableResult(scores, model, chosen, reason, tuple(notes))

    def _searches(self) -> list[Integers]:
        """Training rows of each search over weights."""
        return [*(fold.train for fold in self.folds), *([self.rows] if len(self.folds) > 1 else [])]

    def _search_fits(self, rows: Integers) -> int:
        """Cost of a search on these rows, in aligned fits: about two for each fold, and the last ones."""
        if self.table.groups is not None and self.classes is not None:
            return 1
        domains = len(np.unique(self.table.domains[rows]))
        return 2 * (min(domains, _SEARCH_FOLDS) + 1) if domains > 2 else 1

    def _present(self, rows: Integers) -> tuple[tuple[str, ...] | None, NDArray[Any]]:
        """Classes that occur in these rows, and the rows' targets; other classes are never predicted."""
        if self.classes is None:
            return None, self.targets[rows]
        present, targets = np.unique(self.targets[rows], return_inverse=True)
        return tuple(self.classes[index] for index in present), targets

    def _fit_plain(self, encoder: TableEncoder, features: Array, rows: Integers) -> TableModel:
        """scikit-learn's LogisticRegression or Ridge with their defaults."""
        classes, targets = self._present(rows)
        estimator = plain_estimator(classes).fit(features, targets)
        return TableModel(encoder, np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_), classes)

    def _fit_aligned(
        self, encoder: TableEncoder, features: Array, rows: Integers, watch: Callable[[int, int], None]
    ) -> tuple[TableModel, dict[str, Any], str]:
        """Fit the estimator that selects its weights within the training domains, or the remedy of rows with groups."""
        classes, targets = self._present(rows)
        table = self.table
        estimator: Any
        if classes is not None and table.groups is not None:
            estimator = GroupRobustClassifier(random_state=self.seed)
            estimator.fit(features, targets, groups=table.groups[rows])
            chosen: dict[str, Any] = {"method": estimator.method}
            reason = f"Method {estimator.method} for the worst group, with its defaults."
        else:
            search = MomentAlignedRegressorCV if classes is None else MomentAlignedClassifierCV
            estimator = search(callback=watch).fit(features, targets, domains=table.domains[rows])
            chosen = {"gradient_weight": estimator.gradient_weight_}
            if classes is not None:
                chosen["hessian_weight"] = estimator.hessian_weight_
            chosen |= {"l2": estimator.l2_, "domains_weighted_equally": bool(estimator.balanced_)}
            if classes is None:
                chosen["domain_intercepts"] = estimator.domain_intercepts_
            reason = estimator.reason_
        coef, intercept = np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)
        return TableModel(encoder, coef, intercept, classes), chosen, reason

    def _predict(self, model: TableModel, numbers: Array) -> Array:
        """Probabilities of this table's classes, shape (n, C), or numbers, shape (n, 1)."""
        logits = model.logits_of(numbers)
        if self.classes is None or model.classes is None:
            return logits
        probabilities = np.zeros((len(logits), len(self.classes)))
        probabilities[:, [self.classes.index(name) for name in model.classes]] = model.probabilities(logits)
        return probabilities

    def _measure_groups(self, rows: Integers, outputs: Mapping[str, Array]) -> dict[str, GroupReport]:
        """Measures over groups of each model; none for a regression or without groups."""
        groups = self.table.groups
        if groups is None or self.classes is None:
            return {}
        return {
            name: measure_groups(self.targets[rows], probabilities, groups[rows], groups[self.rows])
            for name, probabilities in outputs.items()
        }


def write_probe(result: TableResult, out: Path) -> None:
    """Write `scores.csv` and the model, both or nothing."""
    result.model.save(out, {"scores.csv": result.scores.to_csv()})


def _watch_search(progress: ReportProgress, part: str, index: int, searches: int) -> Callable[[int, int], None]:
    """Callback of one of several searches, which reports the share of the whole."""
    return lambda done, total: progress(part, (index + done / total) / searches)
