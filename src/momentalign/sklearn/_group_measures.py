"""Measures of predictions from counts and probabilities."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score

from momentalign._types import Array


def class_accuracies(targets: NDArray[np.int64], hits: NDArray[np.bool_]) -> Array:
    """Accuracy on the rows of each class that occurs."""
    sizes = np.bincount(targets)
    return np.bincount(targets, weights=hits)[sizes > 0] / sizes[sizes > 0]


def f1_by_group(
    targets: NDArray[np.int64], predicted: NDArray[np.int64], codes: NDArray[np.int64], shape: tuple[int, int]
) -> Array:
    """Mean F1 of the classes that occur in each group, shape (G,)."""

    def count(rows: NDArray[np.bool_] | slice, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(codes[rows] * shape[1] + labels[rows], minlength=shape[0] * shape[1]).reshape(shape)

    actual = count(slice(None), targets)
    scores = 2 * count(targets == predicted, targets) / np.maximum(actual + count(slice(None), predicted), 1)
    means: Array = (scores * (actual > 0)).sum(1) / (actual > 0).sum(1)
    return means


def probability_table(probabilities: ArrayLike, rows: int, labels: NDArray[Any], *, given: bool) -> Array:
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


def auroc(targets: NDArray[np.int64], table: Array) -> float | None:
    """AUROC of the second of two classes, else the mean over the classes that occur; None with one class."""
    present = np.unique(targets)
    if len(present) < 2:
        return None
    chosen = present[1:] if table.shape[1] == 2 else present
    return float(np.mean([roc_auc_score(targets == label, table[:, label]) for label in chosen]))


def calibration_error(hits: NDArray[np.bool_], confidences: Array, bins: int) -> float:
    """Expected calibration error in bins of equal width that include their upper edge."""
    edges = np.linspace(0, 1, bins + 1)[1:-1]
    where = np.searchsorted(edges, confidences, side="left")
    gaps = np.bincount(where, weights=hits - confidences, minlength=bins)
    return float(np.abs(gaps).sum() / len(hits))
