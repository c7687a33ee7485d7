"""Invariant-feature subspace recovery: find the directions in which domains differ within a class, and shrink them."""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from momentalign._types import Array
from momentalign._validation import check_count, check_nonnegative
from momentalign.sklearn._base import DomainEstimator


@dataclass(eq=False, repr=False)
class SubspaceRecovery(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DomainEstimator, ABC):  # type: ignore[misc]  # no types
    """PCA, a rotation whose first coordinates are the spurious ones, and their scale; see :class:`ISRMean`."""

    n_spurious: int | None = None
    _: KW_ONLY
    n_components: int | None = 100
    target_class: object = None
    scale: float = 0.0

    def fit(self, X: ArrayLike, y: ArrayLike, domains: ArrayLike | None = None) -> Self:
        """Find the directions.

        Args:
            X: Shape (n, d).
            y: Classes, shape (n,).
            domains: Domain of each row: strings or integers, shape (n,). None finds nothing, with a warning.

        Returns:
            The fitted transformer.
        """
        check_nonnegative("scale", self.scale)
        features: Array
        targets: NDArray[Any]
        features, targets = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(targets)
        codes = self._take_domains(domains, len(features), "finds no spurious direction")
        self.pca_ = None
        if self.n_components is not None:
            most = min(check_count("n_components", self.n_components, 1), *features.shape)
            with np.errstate(invalid="ignore"):  # shares of the variance, where rows are all the same
                self.pca_ = PCA(most, svd_solver="full").fit(features)
            features = self.pca_.transform(features)
        directions = np.zeros((features.shape[1], 0))
        if codes is not None and len(self.domains_) > 1:
            self.class_ = self._class(targets, codes)
            rows = targets == self.class_
            found, default = self._directions(features[rows], codes[rows])
            number = default if self.n_spurious is None else check_count("n_spurious", self.n_spurious, 0)
            if number > (most := found.shape[1]):
                raise ValueError(
                    f"'n_spurious' should be at most {most} for these domains and features, but is {number}."
                )
            directions = found[:, :number]
        self.n_spurious_ = directions.shape[1]
        # QR completes the directions to an orthonormal basis; its signs are free, and these keep the directions'.
        basis, triangle = np.linalg.qr(np.hstack([directions, np.eye(len(directions))]))
        self.basis_ = basis * np.where(triangle.diagonal() < 0, -1.0, 1.0)
        self._n_features_out = len(directions)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Rotate X (n, d) to (n, k), the spurious coordinates first, and scale those."""
        check_is_fitted(self)
        features: Array = validate_data(self, X, dtype=np.float64, reset=False)
        if self.pca_ is not None:
            features = self.pca_.transform(features)
        rotated: Array = features @ self.basis_
        rotated[:, : self.n_spurious_] *= self.scale
        return rotated

    @abstractmethod
    def _directions(self, features: Array, codes: NDArray[np.int64]) -> tuple[Array, int]:
        """Orthonormal directions (k, m) from the rows of one class, the most spurious first, and how many to take."""

    def _class(self, y: NDArray[Any], codes: NDArray[np.int64]) -> Any:
        classes = np.unique(y)
        if self.target_class is None:
            return classes[contingency_matrix(y, codes).min(1).argmax()]
        if self.target_class not in classes:
            raise ValueError(f"'target_class' should be one of {classes.tolist()}, but is {self.target_class!r}.")
        return self.target_class

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class ISRMean(SubspaceRecovery):
    r"""ISR-Mean: the directions in which one class's means differ between domains.

    PCA of the K domains' means of one class gives at most K − 1 directions. They are completed to an orthonormal basis,
    and their coordinates multiplied by `scale`. Without `domains` only PCA is left.

    Args:
        n_spurious: Number of spurious directions; None takes all K − 1, or as many as there are features.
        n_components: Dimensions that PCA keeps first; None skips it. Fewer where the data have fewer.
        target_class: Class whose rows are compared; None takes the one whose rarest domain has the most rows.
        scale: Factor of the spurious coordinates; 0 removes them.

    Attributes:
        class_: The class that was compared.
        n_spurious_: Number of spurious directions.
        basis_: Orthonormal, the spurious directions first, shape (k, k).
        pca_: The fitted PCA, or None.
        domains_: Labels of the training domains; empty without them.

    Example:
        >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.0, 5.0]])
        >>> ISRMean(n_components=None).fit_transform(X, [0, 0, 0, 0], domains=["a", "a", "b", "b"])
        array([[0., 0.],
               [0., 1.],
               [0., 0.],
               [0., 1.]])
    """

    def _directions(self, features: Array, codes: NDArray[np.int64]) -> tuple[Array, int]:
        means = np.stack([features[codes == code].mean(0) for code in np.unique(codes)])
        directions = np.linalg.svd(means - means.mean(0), full_matrices=False)[2][: len(means) - 1].T
        return directions, directions.shape[1]


class ISRCov(SubspaceRecovery):
    r"""ISR-Cov: the directions in which one class's covariance differs most between two domains.

    The eigenvectors of the difference of the two covariances with the largest eigenvalues in absolute value. They are
    completed to an orthonormal basis, and their coordinates multiplied by `scale`. Without `domains` only PCA is left.

    Arguments and attributes are those of :class:`ISRMean`, except that `n_spurious=None` takes one direction.

    Example:
        >>> X = np.array([[-1.0, -1.0], [1.0, 1.0], [-1.0, -9.0], [1.0, 9.0], [-1.0, 9.0], [1.0, -9.0]])
        >>> isr = ISRCov(n_components=None).fit(X, [0] * 6, domains=["a", "a", "b", "b", "b", "b"])
        >>> np.abs(isr.basis_[:, 0]).round(2)
        array([0.02, 1.  ])
    """

    def _directions(self, features: Array, codes: NDArray[np.int64]) -> tuple[Array, int]:
        present, sizes = np.unique(codes, return_counts=True)
        if len(self.domains_) != 2 or len(present) != 2 or sizes.min() < 2:
            sizes_by_domain = {str(self.domains_[code]): int(size) for code, size in zip(present, sizes, strict=True)}
            raise ValueError(
                f"ISRCov compares two domains with at least two rows each of class {self.class_!r}, but found "
                f"{sizes_by_domain}. Pass the rows of two domains, or use ISRMean."
            )
        first, second = (np.atleast_2d(np.cov(features[codes == code], rowvar=False)) for code in present)
        values, vectors = np.linalg.eigh(second - first)
        return vectors[:, np.argsort(-np.abs(values), kind="stable")], 1
