"""Held-out rows of a table, and scores of models on them: by domain, mean and worst domain, groups."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._csv import csv_text
from momentalign._seeds import holdout_rows
from momentalign._types import Array, Integers
from momentalign.sklearn import GroupReport, group_report
from momentalign.tables._table import Table


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit and rows to score; `name` is what is held out."""

    name: str
    train: Integers
    test: Integers


def make_folds(table: Table, test_domain: str | None, seed: int) -> tuple[list[Fold], list[str]]:
    """Choose the folds, and describe them in one sentence each.

    A named test domain is scored by a fit on the others; a split `"test"`, else `"val"`, by a fit on `"train"`. Without
    either, each of three or more domains is left out in turn; of two, a fifth of the rows is held out.
    """
    domains, splits, train = table.domains, table.splits, table.training_rows
    notes = []
    if splits is not None:
        sizes = ", ".join(f"{name} {count}" for name, count in zip(*np.unique(splits, return_counts=True), strict=True))
        notes.append(f"Splits: {sizes}; fitted on '{'in' if 'in' in splits else 'train'}' only.")
    scored = next((name for name in ("test", "val") if splits is not None and name in splits), None)
    if test_domain is not None:
        test = domains == test_domain
        if scored is not None:
            test &= splits == scored
        train = train & (domains != test_domain)
        where = f"'{test_domain}'" + ("" if scored is None else f" in split '{scored}'")
        notes.append(f"Trained on {train.sum()} rows of the other domains, tested on {test.sum()} of {where}.")
        return [_fold(test_domain, train, test)], notes
    if scored is not None:
        test = np.asarray(splits == scored)
        notes.append(f"Trained on {train.sum()} rows, tested on the {test.sum()} of split '{scored}'.")
        return [_fold(scored, train, test)], notes
    names = np.unique(domains)
    if len(names) > 2:
        notes.append(
            f"No test domain given: each domain is left out in turn, then {train.sum()} rows of all are fitted."
        )
        return [_fold(str(name), train, domains == name) for name in names], notes
    notes.append("No test domain given, and fewer than three domains: a fifth of each domain is held out.")
    test = np.zeros(len(domains), dtype=bool)
    for index, name in enumerate(names):
        rows = np.flatnonzero(domains == name)
        test[rows[holdout_rows(len(rows), seed, index)[1]]] = True
    return [_fold("held-out rows", train, test)], notes


def _fold(name: str, train: NDArray[np.bool_], test: NDArray[np.bool_]) -> Fold:
    return Fold(name, np.flatnonzero(train & ~test), np.flatnonzero(test))


@dataclass(frozen=True, eq=False)
class TableScores:
    """Scores of models, in the layout of the printed table.

    Args:
        metrics: `("accuracy",)`, or `("r2", "rmse")`.
        models: Names of the models.
        rows: Kind, name and number of rows of each line, such as `("domain", "Zurich", 123)`.
        values: Shape (rows, models, metrics).
        groups: Measures over groups by model; empty for a regression or without groups.
    """

    metrics: tuple[str, ...]
    models: tuple[str, ...]
    rows: tuple[tuple[str, str, int], ...]
    values: Array
    groups: Mapping[str, GroupReport] = field(default_factory=dict)

    def to_csv(self) -> str:
        """One line for each row, model and metric; then the measures over groups, and the accuracy of each group."""
        lines: list[list[object]] = [["kind", "name", "rows", "model", "metric", "value"]]
        for (kind, name, size), block in zip(self.rows, self.values, strict=True):
            for model, line in zip(self.models, block, strict=True):
                for metric, value in zip(self.metrics, line, strict=True):
                    lines.append([kind, name, size, model, metric, repr(float(value))])
        for model, report in self.groups.items():
            lines += ([*line[:3], model, *line[3:]] for line in _group_lines(report))
        return csv_text(lines)


def _group_lines(report: GroupReport) -> Iterator[tuple[str, str, int, str, str]]:
    """Kind, name, rows, metric and value of each measure over groups and of each group's accuracy."""
    worst, rows = report.worst_group, sum(group.rows for group in report.groups)
    ends = {"worst_group_low": worst.low, "worst_group_high": worst.high}
    for metric, value in {**report.metrics(), **ends}.items():
        yield "groups", worst.name if metric in ("worst_group_accuracy", *ends) else "", rows, metric, repr(value)
    for group in report.groups:
        yield "group", group.name, group.rows, "accuracy", repr(group.accuracy)


def measure_groups(
    targets: Integers, probabilities: Array, groups: NDArray[Any], train_groups: NDArray[Any] | None = None
) -> GroupReport:
    """Measures over groups of class indices (n,) and probabilities (n, C), weighted by the training rows' groups."""
    known = train_groups is not None and np.isin(groups, train_groups).any()
    return group_report(
        targets,
        probabilities.argmax(1),
        groups,
        probabilities=probabilities,
        train_groups=train_groups if known else None,
        classes=np.arange(probabilities.shape[1]),
    )


def score_predictions(
    targets: NDArray[Any],
    predictions: Mapping[str, NDArray[Any]],
    domains: NDArray[np.str_],
    groups: Mapping[str, GroupReport],
    *,
    classify: bool,
) -> TableScores:
    """Score the predictions of each model by domain; with several domains also their mean and worst."""
    metrics = ("accuracy",) if classify else ("r2", "rmse")
    score = _accuracy if classify else _regression_scores

    def score_rows(rows: NDArray[np.bool_]) -> Array:
        return np.array([score(targets[rows], predicted[rows]) for predicted in predictions.values()])

    names = np.unique(domains).tolist()
    values = [score_rows(domains == name) for name in names]
    lines = [("domain", name, int((domains == name).sum())) for name in names]
    if len(names) > 1:
        each = np.stack(values)
        lines += [("mean", "mean", len(targets)), ("worst", "worst domain", len(targets))]
        # Least accuracy and R², largest error.
        worst = each.min(0) if classify else np.stack([np.fmin.reduce(each[..., 0]), each[..., 1].max(0)], axis=1)
        values += [_mean(each), worst]
    return TableScores(metrics, tuple(predictions), tuple(lines), np.stack(values), groups)


def _accuracy(targets: NDArray[Any], predicted: NDArray[Any]) -> list[float]:
    return [float((targets == predicted).mean())]


def _regression_scores(targets: NDArray[Any], predicted: NDArray[Any]) -> list[float]:
    """R² against the rows' own mean (NaN for a constant target), and root mean squared error."""
    error, total = float(np.square(targets - predicted).mean()), float(np.var(targets))
    return [1.0 - error / total if total > 0 else float("nan"), error**0.5]


def _mean(each: Array) -> Array:
    """Mean over units (units, models, metrics), without undefined R²."""
    known = ~np.isnan(each)
    mean: Array = np.where(known, each, 0.0).sum(0) / np.maximum(known.sum(0), 1)
    return mean
