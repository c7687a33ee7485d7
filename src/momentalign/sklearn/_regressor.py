"""Linear regressions with gradients aligned across domains, with given and with chosen weights."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._types import Array
from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear import LinearHead, fit_least_squares, fit_least_squares_path
from momentalign.sklearn._base import FitRows, LinearRegressor
from momentalign.sklearn._search import Setting, WeightSearch


class MomentAlignedRegressor(LinearRegressor):
    r"""Ridge regression whose gradients agree across domains.

    Minimises the mean over domains of each domain's mean of ½(prediction − y)², plus half of `l2` times the squared
    norm of the coefficients (not of the intercept), plus the spread of the domains' gradients. All of it is quadratic
    and is solved directly, but for relative scaling, whose quotient takes a few steps on the same moments.

    Under relative scaling the penalty has no units while the loss has those of y². There `gradient_weight` is in units
    of the loss of the best constant, ½ the variance of y, so that its meaning does not depend on the units of y.

    There is no weight for the Hessians: that of the squared error is the second moment of the features, whatever the
    coefficients, so on fixed features aligning it would change nothing.

    Without `domains`, or with one domain only, this is scikit-learn's `Ridge(alpha=l2 * n)`.

    Args:
        gradient_weight: Weight of the gradients' spread.
        l2: Weight of half the squared norm of the coefficients.
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

    def _check_parameters(self) -> None:
        check_choice("scaling", self.scaling, SCALINGS)
        for name in ("gradient_weight", "l2", "tol"):
            check_weight(name, getattr(self, name))
        check_count("max_iter", self.max_iter, 1)

    def _fit(self, rows: FitRows) -> None:
        unit = _unit_of_weights(self.scaling, rows.targets, rows.domains, rows.weights)
        head = fit_least_squares(
            rows.features,
            rows.targets,
            rows.domains,
            self.gradient_weight * unit,
            sample_weight=rows.weights,
            l2=self.l2,
            scaling=self.scaling,
            bias=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self._store(head)


class MomentAlignedRegressorCV(LinearRegressor, WeightSearch):
    r""":class:`MomentAlignedRegressor` with its weight chosen inside the training domains, plain ridge among them.

    Every training domain is left out in turn, the candidates are fitted on the others and scored on that one by R². Two
    steps: the L2 of plain ridge regressions, in which all rows count alike, with the largest mean score; then, at that
    L2, the grid of weights, in which all domains count alike. A weight is taken only if it scores at least as high as
    ridge on *every* domain left out; of those, the largest mean score.

    With two domains, leaving one out leaves one, in which there is nothing to align. They still choose L2, each in turn
    against the other; the weights are scored on held-out folds of both, by the worse of the two, and a gain over ridge
    counts only if it exceeds its standard error. Without `domains`: ridge with the first of `l2s`.

    Args:
        gradient_weights: Candidates for the weight of the gradients' spread; 0 is added.
        l2s: Candidates for the weight of half the squared norm of the coefficients.
        rule: `"cautious"`, as above; or `"best"`: the largest score, whatever is lost elsewhere and however uncertain.
        folds: Number of folds where folds are used.
        scaling: `"relative"`, `"none"`, `"classes"` or `"parameters"`.
        fit_intercept: Whether to fit an intercept.
        tol: Largest entry of the gradient at the solution, relative to that at zero (relative scaling); ten times as
            much for the fits that are only compared.
        max_iter: Maximum number of iterations of a fit (relative scaling).
        random_state: Seed of the folds.
        callback: Called after each split of the search with the number of finished splits and the total.

    Attributes:
        gradient_weight_: Chosen weight of the gradients' spread.
        l2_: Chosen L2.
        balanced_: Whether domains count alike in the loss of the chosen setting; if not, rows do.
        candidates_: The settings, a dictionary each: plain models with every L2, then the weights at the chosen one.
        scores_: Score of each candidate, shape (m,); NaN where nothing could be scored.
        standard_errors_: Of the gain over the plain model with the chosen L2, shape (m,).
        coef_: Shape (d,), or (o, d) for targets of shape (n, o); of the fit on all rows.
        intercept_: A number, or shape (o,).
        domains_: Labels of the training domains; empty without them.
        aligned_: Whether a weight other than 0 was chosen.
        n_iter_: Iterations of the fit on all rows; 1 where solved directly.
        n_features_in_: d.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> X, y, site = np.arange(12.0)[:, None] % 5, np.arange(12.0) % 5, np.repeat(["a", "b", "c"], 4)
        >>> reg = MomentAlignedRegressorCV(l2s=(1e-6, 1.0)).fit(X, y, domains=site)
        >>> reg.l2_, reg.predict([[10.0]]).round(2)
        (1e-06, array([10.]))
    """

    selection = "leave_one_domain_out"

    def __init__(
        self,
        gradient_weights: Sequence[float] = (0.0, 1.0, 10.0),
        l2s: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
        *,
        rule: str = "cautious",
        folds: int = 5,
        scaling: str = "relative",
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
        callback: Callable[[int, int], None] | None = None,
    ) -> None:
        self.gradient_weights = gradient_weights
        self.l2s = l2s
        self.rule = rule
        self.folds = folds
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.callback = callback

    def _fit(self, rows: FitRows) -> None:
        self._totals = _variances(rows)
        chosen = self._search(rows)
        del self._totals
        self._store(self._path(rows, [chosen], self.tol)[0])

    def _weights(self) -> list[tuple[float, float]]:
        weights = {0.0, *(check_weight("gradient_weights", weight) for weight in self.gradient_weights)}
        return [(weight, 0.0) for weight in sorted(weights)]

    def _strata(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        return np.zeros(len(targets), dtype=np.int64)

    def _path(self, rows: FitRows, settings: list[Setting], tol: float) -> list[LinearHead]:
        domains = rows.domains if settings[0]["balanced"] else None
        unit = _unit_of_weights(self.scaling, rows.targets, domains, rows.weights)
        return fit_least_squares_path(
            rows.features,
            rows.targets,
            domains,
            [setting["gradient_weight"] * unit for setting in settings],
            sample_weight=rows.weights,
            l2=[setting["l2"] for setting in settings],
            scaling=self.scaling,
            bias=self.fit_intercept,
            tol=tol,
            max_iter=self.max_iter,
        )

    def _scores(self, head: LinearHead, rows: FitRows) -> Array:
        """One less the squared error in units of the domain's variance: its mean over a domain is R²."""
        assert rows.domains is not None
        errors = np.square(rows.features @ head.coef.T + head.intercept - rows.targets).sum(1)
        scores: Array = 1.0 - errors / self._totals[rows.domains]
        return scores


def _variances(rows: FitRows) -> Array:
    """Variance of the targets in each domain, (K,); 1 where it is 0."""
    if rows.domains is None:
        return np.ones(1)
    each = [rows.targets[rows.domains == domain].var(0).sum() for domain in range(int(rows.domains.max()) + 1)]
    return np.array([variance if variance > 0 else 1.0 for variance in each])


def _unit_of_weights(scaling: str, targets: Array, codes: NDArray[np.int64] | None, weights: Array | None) -> float:
    """Unit of relative weights: the loss of the best constant, all domains counted alike; 1 for other scalings."""
    if scaling != "relative":
        return 1.0
    nothing = np.zeros((len(targets), 1))
    fitted = fit_least_squares(nothing, targets, codes, sample_weight=weights, l2=0.0)
    return max(fitted.objective, 0.0)
