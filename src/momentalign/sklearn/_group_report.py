"""Measures of predictions for rows in groups."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score
from sklearn.utils.multiclass import unique_labels

from momentalign._extras import require
from momentalign._format import align_columns, join_names, pluralize, printable
from momentalign._types import Array
from momentalign._validation import check_blanks, check_count
from momentalign._worst_group import GROUP_MEASURES, worst_group_interval
from momentalign.sklearn._base import encode_labels


@dataclass(frozen=True)
class GroupScore:
    """Accuracy and F1 of one group, its rows and its share of the training rows (None if not known)."""

    name: str
    rows: int
    accuracy: float
    f1: float
    training_share: float | None = None


@dataclass(frozen=True)
class WorstGroup:
    """The group with the lowest accuracy; `low` and `high` are the ends of :func:`worst_group_interval`."""

    name: str
    rows: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class GroupReport:
    """Measures of predictions for rows in groups, from :func:`group_report`; all in 0 … 1, None where undefined.

    Args:
        worst_group: The group with the lowest accuracy, with its interval.
        average: Plain average: accuracy over all rows.
        weighted_average: Accuracies of the groups, weighted by their shares of the training rows; the average that
            papers on Waterbirds report. None without `train_groups`.
        balanced_accuracy: Mean over classes of the accuracy on their rows.
        worst_class_accuracy: Least accuracy on the rows of a class, which needs no groups.
        worst_group_f1: Least F1 of a group.
        auroc: Area under the ROC curve; one class against the rest, averaged over classes, if there are more than two.
        calibration_error: Expected calibration error of the predicted class.
        groups: Scores of each group.
        confidence: Level of the worst group's interval.
        bins: Number of bins of the calibration error.
        notes: What is undefined or left out and why, one sentence each.
    """

    worst_group: WorstGroup
    average: float
    weighted_average: float | None
    balanced_accuracy: float
    worst_class_accuracy: float
    worst_group_f1: float
    auroc: float | None
    calibration_error: float | None
    groups: tuple[GroupScore, ...]
    confidence: float
    bins: int
    notes: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        """The measures that are defined, by their names in the records of runs."""
        measures = {
            "worst_group_accuracy": self.worst_group.accuracy,
            "accuracy": self.average,
            "weighted_accuracy": self.weighted_average,
            "balanced_accuracy": self.balanced_accuracy,
            "worst_class_accuracy": self.worst_class_accuracy,
            "worst_group_f1": self.worst_group_f1,
            "auroc": self.auroc,
            "calibration_error": self.calibration_error,
        }
        return {name: value for name, value in measures.items() if value is not None}

    def as_dict(self) -> dict[str, Any]:
        """All fields as plain Python values, for JSON."""
        return asdict(self)

    def to_frame(self) -> Any:
        """A data frame with a row per group."""
        pandas = require("pandas", "Frames need", extra="cli")
        return pandas.DataFrame([asdict(group) for group in self.groups]).set_index("name")

    def __str__(self) -> str:
        worst, shares = self.worst_group, self.weighted_average is not None
        interval = f"{100 * self.confidence:g}% interval {100 * worst.low:.1f} to {100 * worst.high:.1f}"
        about = {
            "worst_group_accuracy": f"'{printable(worst.name)}'; {interval}",
            "accuracy": "plain: over all rows",
            "weighted_accuracy": "by the groups' shares of the training rows",
            "balanced_accuracy": "mean over classes",
            "worst_class_accuracy": "over its rows of all groups",
            "worst_group_f1": "mean over the classes of a group",
            "calibration_error": f"{pluralize(self.bins, 'bin')} of equal width",
        }
        values = self.metrics()
        measures = [[label, _percent(values.get(name)), about.get(name, "")] for name, label in GROUP_MEASURES.items()]
        rows = [["group", "rows", "accuracy", "F1", *(["training share"] if shares else [])]]
        for group in self.groups:
            share = [_percent(group.training_share)] if shares else []
            rows.append([printable(group.name), str(group.rows), _percent(group.accuracy), _percent(group.f1), *share])
        total = sum(group.rows for group in self.groups)
        title = f"{pluralize(total, 'row')} in {pluralize(len(self.groups), 'group')}; measures in %"
        tables = [*align_columns(measures, right=[1]), "", *align_columns(rows, right=[1, 2, 3, 4])]
        return "\n".join([title, *tables, *self.notes])


def group_report(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    groups: ArrayLike,
    *,
    probabilities: ArrayLike | None = None,
    train_groups: ArrayLike | Mapping[Any, int] | None = None,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
    bins: int = 15,
) -> GroupReport:
    r"""Measure predictions by the groups of their rows: the worst group, averages, F1, AUROC, calibration.

    F1 of a group is the mean, over the classes that its rows have, of :math:`2 t / (p + n)` with *t* correct
    predictions, *p* predictions and *n* rows of the class within the group. Where a group has rows of one class only
    (class × attribute), it is :math:`2 a / (1 + a)` of its accuracy *a*.

    The expected calibration error is :math:`\sum_b \frac{n_b}{n} |a_b - c_b|` over bins of equal width of the
    predicted class's probability, with a bin's accuracy *a* and mean probability *c*; a bin includes its upper edge.

    Args:
        y_true: Labels, shape (n,).
        y_pred: Predicted labels, shape (n,).
        groups: Group of each row, shape (n,); a pair of class and attribute, or the attribute alone.
        probabilities: Of each class, shape (n, C) as of `predict_proba`, or with two classes of the second one, shape
            (n,). Without them AUROC and calibration error are None.
        train_groups: Group of each training row, or the number of training rows by group; for the weighted average.
        classes: Order of the columns of `probabilities`, the estimator's `classes_`; None takes the sorted labels.
        confidence: Level of the worst group's interval.
        bins: Number of bins of the calibration error.

    Returns:
        The measures; `print` shows them on a screen.

    Raises:
        ValueError: Columns of different length, missing labels or groups, group names that differ by blanks only,
            training groups that none of the rows has, probabilities that do not fit the classes, or labels and
            predictions of different kinds.

    Example:
        >>> report = group_report([0, 0, 1, 1], [0, 0, 1, 0], ["a", "b", "a", "b"], train_groups=["a", "a", "a", "b"])
        >>> report.worst_group.name, report.worst_group.accuracy, report.average, report.weighted_average
        ('b', 0.5, 0.75, 0.875)
    """
    check_count("bins", bins, 1)
    labels, targets, predicted = _encode_targets(y_true, y_pred, classes)
    names, codes = encode_labels(groups, len(targets), "groups", "y_true")
    check_blanks("groups", names.tolist())
    hits = targets == predicted

    def count(column: NDArray[np.int64], weights: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows of each group with each class in a column, shape (G, C)."""
        cells = codes * len(labels) + column
        counts: NDArray[Any] = np.bincount(cells, weights, len(names) * len(labels)).reshape(len(names), -1)
        return counts

    actual, right = count(targets), count(targets, hits)
    sizes, present = actual.sum(1), actual.any(0)
    accuracies, by_class = right.sum(1) / sizes, (right.sum(0)[present] / actual.sum(0)[present])
    f1 = (2 * right / np.maximum(actual + count(predicted), 1)).sum(1) / (actual > 0).sum(1)
    shares, notes = _training_shares(train_groups, names)
    low, high = worst_group_interval(right.sum(1), sizes, confidence=confidence)
    area = error = None
    if probabilities is None:
        notes.append("AUROC and calibration error need 'probabilities'.")
    else:
        table = _probability_table(probabilities, len(targets), labels, given=classes is not None)
        chosen = np.flatnonzero(present)[1 if len(labels) == 2 else 0 :]
        if present.sum() > 1:
            area = float(np.mean([roc_auc_score(targets == label, table[:, label]) for label in chosen]))
        else:
            notes.append(f"AUROC is undefined: all rows are of class {labels.tolist()[targets[0]]!r}.")
        confidences = table[np.arange(len(targets)), predicted]
        bin_of = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], confidences)  # a bin includes its upper edge
        error = float(np.abs(np.bincount(bin_of, hits - confidences)).sum() / len(hits))
    worst = int(accuracies.argmin())
    scores = tuple(
        GroupScore(str(name), int(sizes[i]), float(accuracies[i]), float(f1[i]), None if shares is None else shares[i])
        for i, name in enumerate(names.tolist())
    )
    return GroupReport(
        WorstGroup(scores[worst].name, scores[worst].rows, scores[worst].accuracy, low, high),
        average=float(hits.mean()),
        weighted_average=None if shares is None else float(accuracies @ np.array(shares) / sum(shares)),
        balanced_accuracy=float(by_class.mean()),
        worst_class_accuracy=float(by_class.min()),
        worst_group_f1=float(f1.min()),
        auroc=area,
        calibration_error=error,
        groups=scores,
        confidence=confidence,
        bins=bins,
        notes=tuple(notes),
    )


def _encode_targets(
    y_true: ArrayLike, y_pred: ArrayLike, classes: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Classes, and the index of each row's label and prediction among them."""
    rows = len(np.asarray(y_true)) if np.ndim(y_true) else 0
    if rows == 0:
        raise ValueError(f"'y_true' should have a label for each row, but has shape {np.shape(y_true)}.")
    found, targets = encode_labels(y_true, rows, "y_true", "y_true")
    answers, predicted = encode_labels(y_pred, rows, "y_pred", "y_true")
    labels = unique_labels(found, answers)
    if classes is not None:
        known, labels = labels, np.asarray(classes)
        if labels.ndim != 1 or len(np.unique(labels)) != len(labels) or len(np.setdiff1d(known, labels)):
            raise ValueError(
                f"'classes' should list each of {known.tolist()} once, as the estimator's classes_, but is "
                f"{labels.tolist()}."
            )
    order = np.argsort(labels)
    positions = [order[np.searchsorted(labels, values, sorter=order)] for values in (found, answers)]
    return labels, positions[0][targets], positions[1][predicted]


def _probability_table(probabilities: ArrayLike, rows: int, labels: NDArray[Any], *, given: bool) -> Array:
    """Probabilities of every class, shape (n, C)."""
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim == 1 and len(labels) == 2:
        table = np.stack([1 - table, table], axis=1)
    if table.shape != (rows, len(labels)):
        advice = "" if given else " Pass the estimator's classes_ as 'classes'."
        raise ValueError(
            f"'probabilities' should have a row for each row of 'y_true' and a column for each class "
            f"({rows}, {len(labels)}), but has shape {np.shape(probabilities)}.{advice}"
        )
    if not ((table >= 0) & (table <= 1 + 1e-9)).all():
        raise ValueError(
            "'probabilities' should lie between 0 and 1, but some do not. Pass predict_proba's, not decision values."
        )
    return table


def _training_shares(
    train_groups: ArrayLike | Mapping[Any, int] | None, names: NDArray[Any]
) -> tuple[list[float] | None, list[str]]:
    """Share of the training rows of each group, and notes on groups that only one side has."""
    if train_groups is None:
        return None, ["The weighted average needs 'train_groups'."]
    if isinstance(train_groups, Mapping):
        counts = {str(name): int(rows) for name, rows in train_groups.items()}
    else:
        found, codes = encode_labels(train_groups, len(np.asarray(train_groups)), "train_groups", "train_groups")
        counts = dict(zip(map(str, found.tolist()), np.bincount(codes).tolist(), strict=True))
    here = [str(name) for name in names.tolist()]
    if not any(counts.get(name) for name in here):
        raise ValueError(
            f"'train_groups' should name the groups of 'groups', but {join_names(sorted(map(repr, counts))) or 'it'} "
            f"has none of {join_names(list(map(repr, here)))}. Use the same names for both."
        )
    missing = [name for name, rows in counts.items() if rows and name not in here]
    notes = [f"No rows of the training group {name!r}: left out of the weighted average." for name in missing]
    unseen = [name for name in here if not counts.get(name)]
    notes += [f"No training rows of group {name!r}: weight 0 in the weighted average." for name in unseen]
    total = sum(counts.values())
    return [counts.get(name, 0) / total for name in here], notes


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
