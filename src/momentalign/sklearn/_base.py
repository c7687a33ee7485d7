"""Base classes of the estimators: `fit` with domains and sample weights, predictions, validation."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from momentalign._errors import warn_user
from momentalign._types import Array
from momentalign._validation import SCALINGS, check_choice, check_count, check_labels, check_weight
from momentalign.linear import LinearHead, balance_weights, fit_path, unit_l2

_FLOATS = [np.float64, np.float32]


Kept = slice | NDArray[np.intp]
"""Rows whose weight is not 0."""


class FitRows(NamedTuple):
    """Validated arguments of `fit`: classes and domains as indices, targets of regressions as float64 (n, o)."""

    features: NDArray[np.floating]
    targets: NDArray[Any]
    domains: NDArray[np.int64] | None = None
    weights: Array | None = None

    def take(self, index: Kept) -> "FitRows":
        """Some of the rows."""
        return FitRows(*(None if column is None else column[index] for column in self))  # type: ignore[arg-type]

    @property
    def unit_l2(self) -> float:
        """L2 of scikit-learn's `LogisticRegression()` and `Ridge()`."""
        return unit_l2(len(self.features), self.weights)


class DomainEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """An estimator that is fitted with domains."""

    domains_: NDArray[Any]

    def _take_domains(
        self, domains: ArrayLike | None, rows: int, outcome: str, kept: Kept = slice(None)
    ) -> NDArray[np.int64] | None:
        """Set `domains_`, the sorted labels of the kept rows, and return their indices; warn about less than two."""
        self.domains_ = np.empty(0, dtype=object)
        name = type(self).__name__
        if domains is None:
            warn_user(
                f"Without 'domains' {name} {outcome}: there is nothing to compare. Pass the domain of each row: "
                "fit(X, y, domains=site); in cross-validation params={'domains': site}, where metadata routing is on "
                "with set_fit_request(domains=True)."
            )
            return None
        labels, codes = encode_labels(domains, rows)
        present = np.bincount(codes[kept], minlength=len(labels)) > 0
        self.domains_, codes = labels[present], (np.cumsum(present) - 1)[codes[kept]]
        if len(self.domains_) == 1:
            warn_user(
                f"All rows are of domain {self.domains_.tolist()[0]!r}: with one domain there is nothing to compare, "
                f"and {name} {outcome}. Pass rows of several domains."
            )
        return codes


class LinearModel(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A linear model: `coef_` and `intercept_`."""

    coef_: Array
    intercept_: Any
    n_iter_: int

    def _output(self, X: ArrayLike) -> Array:
        """Output of the model."""
        check_is_fitted(self)
        features: NDArray[np.floating] = validate_data(self, X, dtype=_FLOATS, reset=False)
        output: Array = features @ self.coef_.T + self.intercept_
        return output

    def _store(self, head: LinearHead) -> None:
        self.coef_, self.intercept_, self.n_iter_ = head.coef, head.intercept, head.n_iter


class LinearEstimator(DomainEstimator, LinearModel, ABC):
    """A linear model that is fitted with domains."""

    aligned_: bool
    scaling: str
    fit_intercept: bool
    tol: float
    max_iter: int

    def fit(
        self, X: ArrayLike, y: ArrayLike, domains: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model.

        Args:
            X: Shape (n, d).
            y: Classes, shape (n,); numbers, shape (n,) or (n, o), for regressors.
            domains: Domain of each row: strings or integers, shape (n,). None aligns nothing, with a warning.
            sample_weight: Weight of each row within its domain, shape (n,). Rows of weight 0 count as left out.

        Returns:
            The fitted estimator.
        """
        self._check_parameters()
        features, targets = self._validate_targets(X, y)
        weights, kept = check_weights(sample_weight, features)
        codes = self._take_domains(domains, len(features), "is the plain L2-regularised model", kept)
        self.aligned_ = len(self.domains_) > 1
        self._fit(FitRows(features[kept], targets[kept], codes, weights))
        return self

    def _check_parameters(self) -> None:
        """Check the arguments of the constructor before any work."""
        check_choice("scaling", self.scaling, SCALINGS)
        for name in ("tol", "gradient_weight", "hessian_weight", "l2"):
            if getattr(self, name, None) is not None:
                check_weight(name, getattr(self, name))
        check_count("max_iter", self.max_iter, 1)

    @abstractmethod
    def _validate_targets(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.floating], NDArray[Any]]:
        """Validate features (n, d) and targets."""

    @abstractmethod
    def _fit(self, rows: FitRows) -> None:
        """Fit validated rows."""

    def _heads(
        self, rows: FitRows, weights: Sequence[tuple[float, float]], l2: Sequence[float], tol: float
    ) -> list[LinearHead]:
        """Fit a head for each pair of a gradient's and a Hessian's weight, with its L2."""
        classification = rows.targets.ndim == 1
        unit = 1.0
        if not classification and self.scaling == "relative":
            # Relative weights are in units of the loss of the best constant, domains weighted equally.
            shares = balance_weights(
                np.zeros(len(rows.targets), int) if rows.domains is None else rows.domains, rows.weights
            )
            unit = 0.5 * float(
                np.average(np.square(rows.targets - np.average(rows.targets, 0, shares)).sum(1), 0, shares)
            )
        return fit_path(
            rows.features,
            rows.targets,
            rows.domains,
            [{1: gradient * unit, **({2: hessian} if classification else {})} for gradient, hessian in weights],
            classes=len(self.classes_) if classification else None,
            sample_weight=rows.weights,
            l2=l2,
            scaling=self.scaling,
            loss="cross_entropy" if classification else "squared_error",
            bias=self.fit_intercept,
            tol=tol,
            max_iter=self.max_iter,
        )


class AlignedModel(LinearEstimator):
    """A linear model with given weights."""

    gradient_weight: float
    hessian_weight: float = 0.0
    l2: float | None

    def _fit(self, rows: FitRows) -> None:
        l2 = rows.unit_l2 if self.l2 is None else self.l2
        self._store(*self._heads(rows, [(self.gradient_weight, self.hessian_weight)], [l2], self.tol))


class LogitClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]  # scikit-learn ships no types
    """Predictions from `classes_`, `coef_` and `intercept_`."""

    classes_: NDArray[Any]

    def decision_function(self, X: ArrayLike) -> Array:
        """Logits, shape (n, C); for two classes the logit of the second, shape (n,)."""
        logits = self._output(X)
        return logits[:, 0] if len(self.coef_) == 1 else logits

    def _logits(self, X: ArrayLike) -> Array:
        """Logits of all classes, shape (n, C)."""
        logits = self._output(X)
        return logits if len(self.coef_) > 1 else np.hstack([np.zeros_like(logits), logits])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most likely class, shape (n,)."""
        return self._labels(self._logits(X).argmax(1))

    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities, shape (n, C), columns in the order of `classes_`."""
        probabilities: Array = softmax(self._logits(X), axis=1)
        return probabilities

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithms of the class probabilities, shape (n, C), columns in the order of `classes_`."""
        logarithms: Array = log_softmax(self._logits(X), axis=1)
        return logarithms

    def _labels(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Classes of indices."""
        labels: NDArray[Any] = self.classes_[targets]
        return labels

    def _validate_targets(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.floating], NDArray[Any]]:
        """Validate features and class indices; set `classes_`."""
        features, y = validate_data(self, X, y, dtype=_FLOATS)
        check_classification_targets(y)
        self.classes_, targets = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"'y' should hold at least two classes, but holds one class: {self.classes_.tolist()[0]!r}."
            )
        return features, targets.astype(np.int64)


class LinearRegressor(MultiOutputMixin, RegressorMixin, LinearEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Predictions from `coef_` and `intercept_`."""

    def predict(self, X: ArrayLike) -> Array:
        """Predictions, shape (n,) or (n, o)."""
        return self._output(X)

    def _validate_targets(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.floating], NDArray[Any]]:
        """Validate features and targets, the latter as float64 (n, o)."""
        features, targets = validate_data(self, X, y, dtype=_FLOATS, multi_output=True, y_numeric=True)
        self._single = targets.ndim == 1
        return features, targets.reshape(len(features), -1).astype(np.float64)

    def _labels(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Targets as they were given."""
        labels: NDArray[Any] = targets[:, 0] if self._single else targets
        return labels

    def _store(self, head: LinearHead) -> None:
        super()._store(head)
        if self._single:
            self.coef_, self.intercept_ = head.coef[0], float(head.intercept[0])


def check_weights(sample_weight: ArrayLike | None, features: NDArray[np.floating]) -> tuple[Array | None, Kept]:
    """Validate weights of rows, none below 0; return those above 0, some there should be, and their rows."""
    if sample_weight is None:
        return None, slice(None)
    weights: Array = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("'sample_weight' should be above 0 for some rows, but is 0 for all.")
    kept: Kept = slice(None) if weights.all() else np.flatnonzero(weights)
    return weights[kept], kept


def encode_labels(
    labels: object, rows: int, name: str = "domains", of: str = "X"
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sorted labels that occur in a column of one label per row of `of`, and the index of each row's label."""
    column = np.asarray(labels)
    # NumPy turns a NaN in a list of strings into the string "nan".
    strings = column.dtype.kind in "US" and isinstance(labels, (list, tuple))
    check_labels(name, np.asarray(labels, dtype=object) if strings else column, rows, of)
    try:
        unique, codes = np.unique(column, return_inverse=True)
    except TypeError:
        raise ValueError(f"'{name}' should hold labels of one kind, but mixes kinds. Use strings throughout.") from None
    return unique, codes.astype(np.int64)
