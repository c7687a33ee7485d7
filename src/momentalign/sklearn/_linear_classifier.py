"""What the linear classifiers share: predictions, and the checks of what `fit` is given."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from momentalign.sklearn._domains import encode_domains, warn_of_one_domain


class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """What a fitted linear classifier can do, from `classes_`, `coef_` and `intercept_`."""

    classes_: NDArray[Any]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logits.

        Args:
            X: Shape (n, d).

        Returns:
            Shape (n, C); of two classes the logit of the second, shape (n,).
        """
        check_is_fitted(self)
        features: NDArray[np.floating] = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        logits: NDArray[np.float64] = features @ self.coef_.T + self.intercept_
        return logits[:, 0] if len(self.coef_) == 1 else logits

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Likeliest class.

        Args:
            X: Shape (n, d).

        Returns:
            Shape (n,).
        """
        logits = self.decision_function(X)
        likeliest: NDArray[Any] = self.classes_[(logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(1)]
        return likeliest

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of the classes.

        Args:
            X: Shape (n, d).

        Returns:
            Shape (n, C), columns in the order of `classes_`.
        """
        logits = self.decision_function(X)
        if logits.ndim == 1:
            return np.column_stack([expit(-logits), expit(logits)])
        probabilities: NDArray[np.float64] = softmax(logits, axis=1)
        return probabilities

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of the probabilities of the classes.

        Args:
            X: Shape (n, d).

        Returns:
            Shape (n, C), columns in the order of `classes_`.
        """
        logits = self.decision_function(X)
        if logits.ndim == 1:
            return -np.column_stack([np.logaddexp(0, logits), np.logaddexp(0, -logits)])
        logarithms: NDArray[np.float64] = log_softmax(logits, axis=1)
        return logarithms

    def _validate(
        self, X: ArrayLike, y: ArrayLike, domains: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[np.int64] | None, NDArray[np.float64] | None]:
        """Check what `fit` was given; set `classes_` and `domains_`."""
        features, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, targets = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"'y' should hold at least two classes, but holds one class: {self.classes_[0]!r}.")
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
        codes = None
        self.domains_ = np.empty(0, dtype=object)
        if domains is not None:
            self.domains_, codes = encode_domains(domains, len(features))
            warn_of_one_domain(self.domains_, type(self).__name__)
        self.aligned_ = len(self.domains_) > 1
        return features, targets.astype(np.int64), codes, weights
