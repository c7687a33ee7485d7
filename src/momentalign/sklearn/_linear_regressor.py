"""What the linear regressors share: predictions, the checks of what `fit` is given, and the unit of a weight."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from momentalign.linear import LinearHead, fit_least_squares
from momentalign.sklearn._domains import encode_domains, warn_of_one_domain


class LinearRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """What a fitted linear regressor can do, from `coef_` and `intercept_`."""

    coef_: NDArray[np.float64]
    intercept_: float | NDArray[np.float64]
    domains_: NDArray[Any]

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predictions.

        Args:
            X: Shape (n, d).

        Returns:
            Shape (n,), or (n, o).
        """
        check_is_fitted(self)
        features: NDArray[np.floating] = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        predictions: NDArray[np.float64] = features @ self.coef_.T + self.intercept_
        return predictions

    def _validate(
        self, X: ArrayLike, y: ArrayLike, domains: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.int64] | None, NDArray[np.float64] | None]:
        """Check what `fit` was given, targets as (n, o); set `domains_`."""
        features: NDArray[np.floating]
        targets: NDArray[np.floating]
        features, targets = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        self._single = targets.ndim == 1
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
        codes = None
        self.domains_ = np.empty(0, dtype=object)
        if domains is not None:
            self.domains_, codes = encode_domains(domains, len(features))
            warn_of_one_domain(self.domains_, type(self).__name__)
        self.aligned_ = len(self.domains_) > 1
        return features, targets.reshape(len(features), -1), codes, weights

    def _keep(self, head: LinearHead) -> None:
        self.coef_ = head.coef[0] if self._single else head.coef
        self.intercept_ = float(head.intercept[0]) if self._single else head.intercept
        self.n_iter_ = head.n_iter


def unit_of_weights(
    scaling: str,
    targets: NDArray[np.floating],
    codes: NDArray[np.int64] | None,
    weights: NDArray[np.float64] | None,
) -> float:
    """Loss of the best constant, every domain counted the same; 1 where the penalty has units of its own."""
    if scaling != "relative":
        return 1.0
    nothing = np.zeros((len(targets), 1))
    fitted = fit_least_squares(nothing, targets, codes, sample_weight=weights, l2=0.0)
    return max(fitted.objective, 0.0)
