"""A linear regression whose gradients agree across domains."""

from typing import Self

from numpy.typing import ArrayLike

from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear import fit_least_squares
from momentalign.sklearn._linear_regressor import LinearRegressor, unit_of_weights


class MomentAlignedRegressor(LinearRegressor):
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
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0]
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
        weight = check_weight("gradient_weight", self.gradient_weight)
        check_weight("tol", self.tol)
        check_count("max_iter", self.max_iter, 1)
        features, targets, codes, row_weights = self._validate(X, y, domains, sample_weight)
        head = fit_least_squares(
            features,
            targets,
            codes,
            weight * unit_of_weights(self.scaling, targets, codes, row_weights),
            sample_weight=row_weights,
            l2=self.l2,
            scaling=self.scaling,
            bias=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self._keep(head)
        return self
