"""Scores of models on held-out rows: by domain, mean and worst domain, worst group."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array


@dataclass(frozen=True, eq=False)
class TableScores:
    """Scores of models, in the layout of the printed table.

    Args:
        metrics: `("accuracy",)`, or `("r2", "rmse")`.
        models: Names of the models.
        rows: Kind, name and number of rows of each line, such as `("domain", "Zurich", 123)`.
        values: Shape (rows, models, metrics).
    """

    metrics: tuple[str, ...]
    models: tuple[str, ...]
    rows: tuple[tuple[str, str, int], ...]
    values: Array

    def to_csv(self) -> str:
        """One line for each row, model and metric."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["kind", "name", "rows", "model", "metric", "value"])
        for (kind, name, size), block in zip(self.rows, self.values, strict=True):
            for model, line in zip(self.models, block, strict=True):
                for metric, value in zip(self.metrics, line, strict=True):
                    writer.writerow([kind, name, size, model, metric, repr(float(value))])
        return text.getvalue()


def score_predictions(
    targets: NDArray[Any],
    predictions: Mapping[str, NDArray[Any]],
    domains: NDArray[np.str_],
    groups: NDArray[np.str_] | None,
    *,
    classify: bool,
) -> TableScores:
    """Score the predictions of each model by domain; with several domains also their mean and worst; worst group."""
    metrics = ("accuracy",) if classify else ("r2", "rmse")
    score = _accuracy if classify else _regression_scores

    def score_rows(rows: NDArray[np.bool_]) -> Array:
        return np.array([score(targets[rows], predicted[rows]) for predicted in predictions.values()])

    names = list(dict.fromkeys(domains.tolist()))
    values = [score_rows(domains == name) for name in names]
    lines = [("domain", name, int((domains == name).sum())) for name in names]
    if len(names) > 1:
        each = np.stack(values)
        lines += [("mean", "mean", len(targets)), ("worst", "worst domain", len(targets))]
        values += [_mean(each), _worst(each, classify)]
    if groups is not None and classify:
        lines.append(("worst group", "worst group", len(targets)))
        values.append(_worst(np.stack([score_rows(groups == name) for name in np.unique(groups)]), classify))
    return TableScores(metrics, tuple(predictions), tuple(lines), np.stack(values))


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


def _worst(each: Array, classify: bool) -> Array:
    """Least accuracy and R², largest error, of (units, models, metrics)."""
    return each.min(0) if classify else np.stack([np.fmin.reduce(each[..., 0]), each[..., 1].max(0)], axis=1)
