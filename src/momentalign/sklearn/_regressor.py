"""Linear regressions with gradients aligned across domains, with given and with chosen weights."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from momentalign._types import Array
from momentalign._validation import check_weight
from momentalign.sklearn._base import AlignedModel, FitRows, LinearRegressor
from momentalign.sklearn._rule import Scorer
from momentalign.sklearn._search import Setting, WeightSearch

_INDICATORS = 2**25
"""Entries of the domains' indicator columns up to which models have an intercept for each domain, 256 MiB."""


@dataclass(eq=False, repr=False)
class MomentAlignedRegressor(LinearRegressor, AlignedModel):
    r"""Ridge regression whose gradients agree across domains.

    Minimises the mean over domains of each domain's mean of ½(prediction − y)², plus half of `l2` times the squared
    norm of the coefficients (not of the intercept), plus the spread of the domains' gradients. All of it is quadratic
    and is solved directly, but for relative scaling, whose quotient takes a few steps on the same moments.

    Under relative scaling the penalty has no units while the loss has those of y². There `gradient_weight` is in units
    of the loss of the best constant, ½ the variance of y, so that its meaning does not depend on the units of y.

    There is no weight for the Hessians: that of the squared error is the second moment of the features, whatever the
    coefficients, so on fixed features aligning it would change nothing.

    Without `domains`, or with one domain only (both with a warning), this is scikit-learn's `Ridge(alpha=l2 * n)`.

    Args:
        gradient_weight: Weight of the gradients' spread.
        l2: Weight of half the squared norm of the coefficients; None is 1/n, that of `Ridge()`.
        scaling: Divisor of the spread: `"relative"` its largest possible value, `"none"` 1, `"classes"` the number o of
            outputs, `"parameters"` (do)².
        fit_intercept: Whether to fit an intercept.
        tol: Largest entry of the gradient at the solution, relative to that at zero (relative scaling).
        max_iter: Maximum number of iterations (relative scaling).

    Attributes:
        coef_: Shape (d,), or (o, d) for targets of shape (n, o).
        intercept_: A number, or shape (o,).
        domains_: Labels of the training domains; empty without them.
        aligned_: Whether there were at least two domains to align.
        n_iter_: Iterations; 1 where solved directly.
        n_features_in_: Number of features.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0]
        >>> MomentAlignedRegressor(l2=0.0).fit(X, y, domains=[0, 0, 1, 1]).predict([[10.0]]).round(6)
        array([21.])
    """

    gradient_weight: float = 1.0
    _: KW_ONLY
    l2: float | None = None
    scaling: str = "relative"
    fit_intercept: bool = True
    tol: float = 1e-6
    max_iter: int = 1000


@dataclass(eq=False, repr=False)
class MomentAlignedRegressorCV(LinearRegressor, WeightSearch):
    r"""Ridge regression that leaves scikit-learn's defaults only where left-out domains give evidence for it.

    The incumbent is `Ridge()` as scikit-learn ships it: L2 = 1/n (alpha = 1), rows weighted equally. Folds, steps and
    rule are those of :class:`MomentAlignedClassifierCV`: to another L2, then to a loss that weights all domains
    equally, alone or with a weight, or to an intercept for each domain, each only if its mean gain is a tenth of a
    point at least and exceeds one standard error over the folds, and at most one fold in five loses more than a
    point, none of fewer than five. Gains in errors are relative to the incumbent's error on the fold, and a point
    is 1% of it; of other scores, such as `"r2"`, a point is 0.01. With two domains, one, or none (with a warning),
    this is the incumbent.

    A model with an intercept for each domain has coefficients that explain the targets within domains only, not why one
    domain's mean is higher than another's. Predictions have the mean of the intercepts. With so many domains that their
    indicator columns would take more than 256 MiB it is not tried.

    Arguments and attributes are those of :class:`MomentAlignedClassifierCV`, without those of Hessians and `scale_`;
    `tol`, `max_iter`, `coef_` and `intercept_` are those of :class:`MomentAlignedRegressor`. `scoring=None` is
    `"neg_root_mean_squared_error"`: R² on a left-out domain mostly tells how far its mean is off.

    Args:
        domain_intercepts: Whether a model with an intercept for each domain is a candidate; `fit_intercept=False` has
            none either.

    Attributes:
        domain_intercepts_: Whether the chosen model was fitted with an intercept for each domain.

    Example:
        >>> X, y, site = np.arange(12.0)[:, None] % 5, np.arange(12.0) % 5, np.repeat(["a", "b", "c"], 4)
        >>> reg = MomentAlignedRegressorCV(l2_factors=(1e-6, 10.0)).fit(X, y, domains=site)
        >>> reg.l2_factor_, reg.predict([[10.0]]).round(2)
        (1e-06, array([10.]))
    """

    gradient_weights: Sequence[float] = (1.0,)
    l2_factors: Sequence[float] = (0.01, 0.1, 10.0, 100.0)
    _: KW_ONLY
    scoring: str | Scorer | None = None
    rule: str = "cautious"
    folds: int | None = None
    domain_intercepts: bool = True
    scaling: str = "relative"
    fit_intercept: bool = True
    tol: float = 1e-6
    max_iter: int = 1000
    n_jobs: int | None = None
    callback: Callable[[int, int], None] | None = None

    incumbent = "Ridge"
    default_scoring = "neg_root_mean_squared_error"

    def _weights(self) -> list[tuple[float, float]]:
        weights = {0.0, *(check_weight("gradient_weights", weight) for weight in self.gradient_weights)}
        return [(weight, 0.0) for weight in sorted(weights)]

    def _tolerated(self, reference: Array) -> int:
        return int(np.isfinite(reference).sum()) // 5

    def _others(self, rows: FitRows, l2_factor: float) -> list[Setting]:
        affordable = len(rows.features) * len(self.domains_) <= _INDICATORS
        if not (self.domain_intercepts and self.fit_intercept and affordable):
            return []
        plain = Setting(gradient_weight=0.0, hessian_weight=0.0, l2_factor=l2_factor, balanced=False)
        return [Setting(**plain, domain_intercepts=True)]
