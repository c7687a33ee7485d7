"""A linear regression whose gradients agree across domains."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear import fit_least_squares
from momentalign.sklearn._domains import encode_domains, warn_of_one_domain


class MomentAlignedRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]  # no types
    r"""Ridge regression whose gradients agree across domains.

    Minimises the mean over domains of each domain's mean of ½(prediction − y)², plus half of `l2` times the squared
    norm of the coefficients (not of the intercept), plus the spread of the domains' gradients. All of it is quadratic
    and is solved directly, but for relative scaling, whose quotient takes a few steps on the same moments.

    Under relative scaling the penalty has no units while the loss has those of y². There `gradient_weight` is taken in
    units of the loss of the best constant, ½ the variance of y, so that its meaning does not change with the targets'.

    There is no weight for the Hessians: that of the squared error is the second moment of the features, whatever the
    coefficients, so on fixed features aligning it would change nothing.

    Without `domains`, or with one domain only, this is scikit-learn's `Ridge(alpha=l2 * n)`.

    Args:
        gradient_weight: Weight of the gradients' spread.
        l2: Weight of half the squared norm of the coefficients.
        scaling: What divides the spread: `"relative"` its largest possible value, `"none"` nothing, `"classes"` the
            number o of outputs, `"parameters"` (do)².
        fit_intercept: Whether to have an intercept.
        tol: Largest entry of the gradient at the solution, relative to that at zero (relative scaling).
        max_iter: Most iterations (relative scaling).

    Attributes:
        coef_: Shape (d,), or (o, d) for targets of shape (n, o).
        intercept_: A number, or shape (o,).
        domains_: Labels of the training domains; empty without them.
        aligned_: Whether there were at least two domains to align.
        n_iter_: Iterations; 1 where solved directly.
        n_features_in_: d.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [1.0, 3.0, 5.0, 7.0]
        >>> MomentAlignedRegressor(l2=0.0).fit(X, y, domains=[0, 0, 1, 1]).predict([[10.0]]).round(6)
        array([21.])
    """

    def __init__(
        self,
        gradient_weight: float = 1.0,
        *,
        l2: float = 1e-2,
        scaling: str = "relative",
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
    ) -> None:
        self.gradient_weight = gradient_weight
        self.l2 = l2
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        domains: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the regression.

        Args:
            X: Shape (n, d).
            y: Numbers, shape (n,) or (n, o).
            domains: Where each row came from: strings or integers, shape (n,). None aligns nothing.
            sample_weight: Weight of each row within its domain, shape (n,).

        Returns:
            The fitted estimator.
        """
        check_choice("scaling", self.scaling, SCALINGS)
        check_weight("gradient_weight", self.gradient_weight)
        check_weight("tol", self.tol)
        check_count("max_iter", self.max_iter, 1)
        features: NDArray[np.floating]
        targets: NDArray[np.floating]
        features, targets = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
        codes = None
        self.domains_ = np.empty(0, dtype=object)
        if domains is not None:
            self.domains_, codes = encode_domains(domains, len(features))
            warn_of_one_domain(self.domains_, type(self).__name__)
        self.aligned_ = len(self.domains_) > 1
        head = fit_least_squares(
            features,
            targets.reshape(len(features), -1),
            codes,
            self.gradient_weight * self._unit(targets, codes, weights),
            sample_weight=weights,
            l2=self.l2,
            scaling=self.scaling,
            bias=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        single = targets.ndim == 1
        self.coef_ = head.coef[0] if single else head.coef
        self.intercept_ = float(head.intercept[0]) if single else head.intercept
        self.n_iter_ = head.n_iter
        return self

    def _unit(
        self, targets: NDArray[np.floating], codes: NDArray[np.int64] | None, weights: NDArray[np.float64] | None
    ) -> float:
        """Loss of the best constant, every domain counted the same; 1 where the penalty has units of its own."""
        if self.scaling != "relative":
            return 1.0
        nothing = np.zeros((len(targets), 1))
        fitted = fit_least_squares(nothing, targets.reshape(len(targets), -1), codes, sample_weight=weights, l2=0.0)
        return max(fitted.objective, 0.0)

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
