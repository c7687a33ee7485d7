"""PCA and ISR-Mean, fitted on the training rows: the features that the head of a probe sees."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from momentalign.linear import fit_head
from momentalign.probing._data import SPLITS, Integers, ProbeData
from momentalign.probing._scores import Scores, predict
from momentalign.sklearn import ISRMean

Array = NDArray[np.float64]

COMPONENTS = 100
"""Principal components that the paper keeps."""


@dataclass(frozen=True, eq=False)
class Projection:
    """From features to what the head sees, :math:`(x - m) A`.

    Args:
        mean: m, shape (d,).
        matrix: A, shape (d, k): principal components, rotated, the spurious coordinates first and scaled.
        isr_class: Class that ISR compared, as an index; None without ISR.
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
    """Rows of one split as the head sees them."""

    features: Array
    targets: Integers
    domains: Integers
    groups: Integers


@dataclass(frozen=True, eq=False)
class ProbeFeatures:
    """The splits of a data set after its projection, and what they are called.

    Args:
        data: Where they come from.
        projection: How.
        splits: Train, val and test.
    """

    data: ProbeData
    projection: Projection
    splits: dict[str, ProbeSplit]

    @property
    def train(self) -> ProbeSplit:
        """The training rows."""
        return self.splits["train"]

    def score(self, hits: NDArray[np.bool_], split: str) -> Scores:
        """Accuracies on a split."""
        rows = self.splits[split]
        return Scores.of(
            hits,
            rows.domains,
            rows.groups,
            num_domains=len(self.data.domain_names),
            num_groups=len(self.data.group_names),
        )


def project(
    data: ProbeData,
    *,
    components: int = COMPONENTS,
    isr: bool = True,
    isr_class: int | None = None,
    isr_scale: float = 0.0,
    unit_scale: bool = True,
) -> ProbeFeatures:
    """PCA of the training rows, then ISR-Mean.

    Args:
        data: The features.
        components: Principal components to keep; fewer where there are fewer columns.
        isr: Whether to apply ISR-Mean.
        isr_class: Class that ISR compares, as an index; None tries all of them and takes the one with which plain
            logistic regression has the best worst-group accuracy on the validation rows, the first on ties.
        isr_scale: What multiplies the spurious coordinates; 0 removes them.
        unit_scale: Whether to divide all coordinates by one number, after which the principal components' mean square
            on the training rows is one. Absolute penalty weights mean little without it: the gradients' spread grows
            with the features' square, the Hessians' with their fourth power.

    Returns:
        The splits as a head sees them.

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
    found = []
    for label in candidates:
        recovery = ISRMean(n_components=None, target_class=label, scale=isr_scale).fit(reduced, y, domains=e)
        scales = np.ones(most)
        scales[: recovery.n_spurious_] = isr_scale
        features = _apply(data, Projection(pca.mean_, rotation @ (recovery.basis_ * scales), label))
        if len(candidates) == 1:
            return features
        found.append((_plain_worst_group(features), features))
    return max(found, key=lambda pair: pair[0])[1]


def _apply(data: ProbeData, projection: Projection) -> ProbeFeatures:
    splits = {}
    for split in SPLITS:
        rows = data.rows(split)
        splits[split] = ProbeSplit(
            projection(data.features[rows]), data.targets[rows], data.domains[rows], data.groups[rows]
        )
    return ProbeFeatures(data, projection, splits)


def _plain_worst_group(features: ProbeFeatures) -> float:
    """Worst-group accuracy on the validation rows of logistic regression on the training rows."""
    train, val = features.train, features.splits["val"]
    unit = float(np.square(train.features).mean())
    head = fit_head(
        train.features, train.targets, classes=len(features.data.classes), l2=1e-3 * unit, bias=False, scaling="none"
    )
    return features.score(predict(head, val.features) == val.targets, "val").worst
