"""How well the two models do on rows they have not seen: by domain, by group, mean and worst."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TableScores:
    """Scores of two models, row by row of the table that is printed.

    Args:
        metrics: `("accuracy",)`, or `("r2", "rmse")`.
        models: Names of the two models.
        rows: What each row is of, `("domain", "Zurich", 123)`: kind, name, number of rows.
        values: Shape (rows, models, metrics).
    """

    metrics: tuple[str, ...]
    models: tuple[str, ...]
    rows: tuple[tuple[str, str, int], ...]
    values: Array

    def to_csv(self) -> str:
        """A line for each row, model and metric."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["kind", "name", "rows", "model", "metric", "value"])
        for (kind, name, size), block in zip(self.rows, self.values, strict=True):
            for model, line in zip(self.models, block, strict=True):
                for metric, value in zip(self.metrics, line, strict=True):
                    writer.writerow([kind, name, size, model, metric, repr(float(value))])
        return text.getvalue()


def score_table(
    targets: NDArray[Any],
    answers: Mapping[str, NDArray[Any]],
    domains: NDArray[np.str_],
    groups: NDArray[np.str_] | None,
    *,
    classify: bool,
) -> TableScores:
    """Score models on test rows.

    Args:
        targets: Classes as indices, or numbers, shape (n,).
        answers: Of each model, shape (n,).
        domains: Names, shape (n,).
        groups: Names, shape (n,), where there are any.
        classify: Whether targets are classes.

    Returns:
        A row a domain; where there are several, their mean and the worst of them; the worst group.
    """
    metrics = ("accuracy",) if classify else ("r2", "rmse")
    score = _accuracy if classify else _fit_quality
    rows: list[tuple[str, str, int]] = []
    values: list[Array] = []
    names = list(dict.fromkeys(domains.tolist()))
    for name in names:
        here = domains == name
        rows.append(("domain", name, int(here.sum())))
        values.append(np.array([score(targets[here], answer[here]) for answer in answers.values()]))
    if len(names) > 1:
        each = np.stack(values)
        rows += [("mean", "mean", len(targets)), ("worst", "worst domain", len(targets))]
        values += [_known_mean(each), _worst(each, classify)]
    if groups is not None and classify:
        each = np.stack(
            [
                np.array([score(targets[groups == name], answer[groups == name]) for answer in answers.values()])
                for name in np.unique(groups)
            ]
        )
        rows.append(("worst group", "worst group", len(targets)))
        values.append(_worst(each, classify))
    return TableScores(metrics, tuple(answers), tuple(rows), np.stack(values))


def _accuracy(targets: NDArray[Any], answers: NDArray[Any]) -> Sequence[float]:
    return [float((targets == answers).mean())]


def _fit_quality(targets: NDArray[Any], answers: NDArray[Any]) -> Sequence[float]:
    """R² against the rows' own mean, and root mean squared error."""
    error, total = float(np.square(targets - answers).mean()), float(np.var(targets))
    return [1.0 - error / total if total > 0 else float("nan"), error**0.5]


def _known_mean(each: Array) -> Array:
    """Mean over units (units, models, metrics); R² of targets that do not vary is not defined, and left out."""
    known = ~np.isnan(each)
    mean: Array = np.where(known, each, 0.0).sum(0) / np.maximum(known.sum(0), 1)
    return mean


def _worst(each: Array, classify: bool) -> Array:
    """Of (units, models, metrics): least accuracy and R², largest error."""
    return each.min(0) if classify else np.stack([np.fmin.reduce(each[..., 0]), each[..., 1].max(0)], axis=1)
