"""Input of the heads, by PCA and ISR-Mean fitted on the training rows, and accuracies of their predictions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.decomposition import PCA

from momentalign._datasets import SPLIT_NAMES
from momentalign._types import Array
from momentalign.linear import LinearHead, fit_head
from momentalign.probing._data import Codes, ProbeData
from momentalign.sklearn import ISRMean
from momentalign.tables import measure_groups

COMPONENTS = 100
"""Principal components that the paper keeps."""


@dataclass(frozen=True, eq=False)
class ProbeScores:
    """Accuracies in 0 … 1: over all rows, of the worst group and class, of each group and domain (NaN without rows)."""

    average: float
    worst: float
    worst_class: float
    groups: Array
    domains: Array


@dataclass(frozen=True, eq=False)
class Projection:
    """Affine map from features to the input of the head, :math:`(x - m) A`.

    A (d, k) holds the rotated principal components, the spurious directions of ISR first and scaled.
    """

    mean: Array
    matrix: Array
    isr_class: int | None

    def __call__(self, features: NDArray[np.floating]) -> Array:
        """Project rows, shape (n, k)."""
        projected = np.empty((len(features), self.matrix.shape[1]))
        # In blocks, so that wide features in single precision are never held twice as double.
        for start in range(0, len(features), 8192):
            projected[start : start + 8192] = (features[start : start + 8192] - self.mean) @ self.matrix
        return projected


@dataclass(frozen=True, eq=False)
class ProbeSplit:
    """Projected rows of one split."""

    features: Array
    targets: Codes
    domains: Codes
    groups: Codes

    def units(self, counts: str) -> Codes | None:
        """Domain or group of each row, whichever the loss weights equally; None for `"rows"`."""
        return {"rows": None, "domains": self.domains, "groups": self.groups}[counts]


@dataclass(frozen=True, eq=False)
class ProbeFeatures:
    """The projected splits of a data set: train, val and test."""

    data: ProbeData
    projection: Projection
    splits: dict[str, ProbeSplit]

    @property
    def train(self) -> ProbeSplit:
        """The training rows."""
        return self.splits["train"]

    def score(self, head: LinearHead, split: str) -> ProbeScores:
        """Accuracies of a head on a split."""
        rows = self.splits[split]
        hits = head.predict(rows.features) == rows.targets
        groups = _means(hits, rows.groups, len(self.data.group_names))
        domains = _means(hits, rows.domains, len(self.data.domain_names))
        by_class = _means(hits, rows.targets, len(self.data.classes))
        return ProbeScores(float(hits.mean()), float(np.nanmin(groups)), float(np.nanmin(by_class)), groups, domains)

    def measures(self, head: LinearHead, split: str) -> dict[str, float]:
        """All measures of :func:`momentalign.sklearn.group_report` on a split, by their names in records."""
        rows = self.splits[split]
        probabilities = softmax(head.logits(rows.features), axis=1)
        return measure_groups(rows.targets, probabilities, rows.groups, self.train.groups).metrics()


def project(
    data: ProbeData,
    *,
    components: int = COMPONENTS,
    isr: bool = True,
    isr_class: int | None = None,
    isr_scale: float = 0.0,
    unit_scale: bool = True,
) -> ProbeFeatures:
    """Fit PCA and ISR-Mean on the training rows and project all rows.

    Args:
        data: The features.
        components: Principal components to keep; fewer where there are fewer columns.
        isr: Whether to apply ISR-Mean.
        isr_class: Class that ISR compares, as an index; None takes the one with which plain logistic regression has the
            best worst-group accuracy on the validation rows, the first on ties.
        isr_scale: Factor of the spurious coordinates; 0 removes them.
        unit_scale: Whether to scale all coordinates to a mean square of one over the training rows. Absolute penalty
            weights mean little without it: the gradients' spread grows with the features' square, the Hessians' with
            their fourth power.

    Returns:
        The projected splits.

    Raises:
        ValueError: No such class, or none that all training domains have.
    """
    train = data.rows("train")
    X = data.features[train].astype(np.float64)
    most = min(components, *X.shape)
    # The covariance's eigenvectors: exact, and the cheapest way where rows are many.
    pca = PCA(most, svd_solver="covariance_eigh" if len(X) > X.shape[1] else "full").fit(X)
    size = float(np.sqrt(pca.explained_variance_.mean() * (1 - 1 / len(X)))) if unit_scale else 1.0
    rotation: Array = pca.components_.T / (size or 1.0)
    if not isr:
        return _apply(data, Projection(pca.mean_, rotation, None))
    reduced = (X - pca.mean_) @ rotation
    del X
    y, e = data.targets[train], data.domains[train]
    shared = [label for label in range(len(data.classes)) if len(np.unique(e[y == label])) == len(np.unique(e))]
    candidates = shared if isr_class is None else [isr_class]
    if not set(candidates) <= set(shared) or not candidates:
        asked = "" if isr_class is None else f"'isr_class' is {isr_class}; "
        names = ", ".join(f"{label} ({data.classes[label]})" for label in shared) or "none"
        raise ValueError(f"ISR compares a class that all training domains have. {asked}such classes: {names}.")

    def recovered(label: int) -> ProbeFeatures:
        recovery = ISRMean(n_components=None, target_class=label, scale=isr_scale).fit(reduced, y, domains=e)
        scales = np.ones(most)
        scales[: recovery.n_spurious_] = isr_scale
        return _apply(data, Projection(pca.mean_, rotation @ (recovery.basis_ * scales), label))

    found = [recovered(label) for label in candidates]
    return found[0] if len(found) == 1 else max(found, key=_plain_worst_group)


def _apply(data: ProbeData, projection: Projection) -> ProbeFeatures:
    splits = {
        split: ProbeSplit(projection(data.features[rows]), data.targets[rows], data.domains[rows], data.groups[rows])
        for split, rows in ((split, data.rows(split)) for split in SPLIT_NAMES)
    }
    return ProbeFeatures(data, projection, splits)


def _plain_worst_group(features: ProbeFeatures) -> float:
    """Worst-group accuracy on the validation rows of logistic regression on the training rows."""
    train = features.train
    unit = float(np.square(train.features).mean())
    head = fit_head(
        train.features, train.targets, classes=len(features.data.classes), l2=1e-3 * unit, bias=False, scaling="none"
    )
    return features.score(head, "val").worst


def _means(hits: NDArray[np.bool_], codes: Codes, number: int) -> Array:
    """Share of hits for each code, NaN for codes without rows."""
    sizes = np.bincount(codes, minlength=number)
    right = np.bincount(codes, weights=hits, minlength=number)
    means: Array = np.divide(right, sizes, out=np.full(number, np.nan), where=sizes > 0)
    return means
