"""The regression that chooses its weight inside the training domains."""

import warnings
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from momentalign._validation import check_weight
from momentalign.linear import LinearHead, fit_least_squares_path
from momentalign.sklearn._linear_regressor import LinearRegressor, unit_of_weights
from momentalign.sklearn._search import SearchRows, Setting, WeightSearch


class MomentAlignedRegressorCV(WeightSearch, LinearRegressor):
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
        fit_intercept: Whether to have an intercept.
        tol: Largest entry of the gradient at the solution, relative to that at zero (relative scaling); ten times as
            much for the fits that are only compared.
        max_iter: Most iterations of a fit (relative scaling).
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

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        domains: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Choose the weight, then fit all rows with it.

        Args:
            X: Shape (n, d).
            y: Numbers, shape (n,) or (n, o).
            domains: Where each row came from: strings or integers, shape (n,). None chooses and aligns nothing.
            sample_weight: Weight of each row within its domain, shape (n,); scores count rows alike.

        Returns:
            The fitted estimator.
        """
        self._check_search()
        rows = SearchRows(*self._validate(X, y, domains, sample_weight))
        self._totals = _variances(rows)
        chosen = self._search(rows)
        del self._totals
        self.gradient_weight_, self.l2_, self.balanced_ = chosen["gradient_weight"], chosen["l2"], chosen["balanced"]
        self.aligned_ = self.gradient_weight_ > 0
        self._keep(self._path(rows, [chosen], self.tol)[0])
        return self

    def _check_search(self) -> list[Setting]:
        self._weights()
        return super()._check_search()

    def _weights(self) -> list[tuple[float, float]]:
        weights = {0.0, *(check_weight("gradient_weights", weight) for weight in self.gradient_weights)}
        return [(weight, 0.0) for weight in sorted(weights)]

    def _classes(self, targets: NDArray[np.generic]) -> NDArray[np.int64]:
        return np.zeros(len(targets), dtype=np.int64)

    def _heads(self, rows: SearchRows, settings: list[Setting], tol: float) -> list[LinearHead]:
        with warnings.catch_warnings():  # whether they converge is said of the last fit alone
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self._path(rows, settings, tol)

    def _path(self, rows: SearchRows, settings: list[Setting], tol: float) -> list[LinearHead]:
        targets = rows.targets.astype(np.float64)
        domains = rows.domains if settings[0]["balanced"] else None
        unit = unit_of_weights(self.scaling, targets, domains, rows.weights)
        return fit_least_squares_path(
            rows.features,
            targets,
            domains,
            [setting["gradient_weight"] * unit for setting in settings],
            sample_weight=rows.weights,
            l2=[setting["l2"] for setting in settings],
            scaling=self.scaling,
            bias=self.fit_intercept,
            tol=tol,
            max_iter=self.max_iter,
        )

    def _scores(self, head: LinearHead, rows: SearchRows) -> NDArray[np.float64]:
        """One less the squared error in units of the domain's variance: its mean over a domain is R²."""
        assert rows.domains is not None
        errors = np.square(rows.features @ head.coef.T + head.intercept - rows.targets.astype(np.float64)).sum(1)
        scores: NDArray[np.float64] = 1.0 - errors / self._totals[rows.domains]
        return scores


def _variances(rows: SearchRows) -> NDArray[np.float64]:
    """Variance of the targets in each domain, (K,); 1 where it is 0."""
    if rows.domains is None:
        return np.ones(1)
    targets = rows.targets.astype(np.float64)
    each = [targets[rows.domains == domain].var(0).sum() for domain in range(int(rows.domains.max()) + 1)]
    return np.array([variance if variance > 0 else 1.0 for variance in each])
