"""The two models that a table is probed with, each after the same preparation of the columns."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from momentalign.data._columns import encode, learn_columns, said_of
from momentalign.linear import fit_head, fit_least_squares
from momentalign.probing._model import ProbeModel
from momentalign.sklearn import MomentAlignedClassifierCV, MomentAlignedRegressorCV

Array = NDArray[np.float64]
Tick = Callable[[], None]

_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training rows as numbers, and how to make numbers of others.

    Args:
        model: The preparation, with a head of zeros.
        features: What a head sees of the training rows, shape (n, k).
        notes: What was done, a sentence each.
    """

    model: ProbeModel
    features: Array
    notes: tuple[str, ...]


def prepare(frame: Any, components: int | None) -> Prepared:
    """Learn medians, categories, means and deviations from the training rows.

    Args:
        frame: Data frame of the training rows.
        components: Principal components to keep where there are more columns; None keeps all columns.

    Returns:
        The preparation.
    """
    columns, notes = learn_columns(frame)
    encoded = encode(frame, columns)
    numbers = encoded.matrix
    mean, scale = numbers.mean(0), numbers.std(0)
    scale[scale == 0] = 1.0
    matrix = None
    if components is not None and numbers.shape[1] > components:
        standard = (numbers - mean) / scale
        pca = PCA(
            min(components, *numbers.shape), svd_solver="covariance_eigh" if len(numbers) > 2 * components else "full"
        )
        pca.fit(standard)
        matrix = pca.components_.T
        notes.append(
            f"{numbers.shape[1]} columns were reduced to {matrix.shape[1]} principal components, which hold "
            f"{100 * pca.explained_variance_ratio_.sum():.0f} % of the variance."
        )
    k = numbers.shape[1] if matrix is None else matrix.shape[1]
    model = ProbeModel(tuple(columns), mean, scale, matrix, np.zeros((1, k)), np.zeros(1), None)
    return Prepared(model, model.features(numbers), (*said_of(encoded, "training rows"), *notes))


def fit_plain(features: Array, targets: NDArray[Any], *, classify: bool) -> tuple[Array, Array]:
    """Coefficients and intercepts of scikit-learn's LogisticRegression or Ridge with their defaults."""
    if classify:
        found = LogisticRegression(max_iter=1000).fit(features, targets)
        return np.asarray(found.coef_), np.asarray(found.intercept_)
    ridge = Ridge().fit(features, targets)
    return np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_)


def fit_aligned(
    features: Array,
    targets: NDArray[Any],
    domains: NDArray[np.str_],
    groups: NDArray[np.str_] | None,
    *,
    classify: bool,
    seed: int,
    tick: Tick,
) -> tuple[Array, Array, dict[str, Any]]:
    """Coefficients and intercepts of the estimator that chooses its weights inside the training domains.

    Args:
        features: Shape (n, k).
        targets: Classes as indices, or numbers, shape (n,).
        domains: Names, shape (n,).
        groups: Names, shape (n,), where the worst of them decides.
        classify: Whether targets are classes.
        seed: Of the folds.
        tick: Called :func:`ticks` times.

    Returns:
        Coefficients (o, k), intercepts (o,), and what was chosen.
    """
    if classify:
        selection = "leave_one_domain_out" if groups is None else "worst_group"
        classifier = _WatchedClassifier(selection=selection, folds=_FOLDS, random_state=seed)
        classifier.tick = tick
        classifier.fit(features, targets, domains=domains, groups=groups)
        chosen = {
            "gradient_weight": classifier.gradient_weight_,
            "hessian_weight": classifier.hessian_weight_,
            "l2": classifier.l2_,
            "domains_count_alike": bool(classifier.balanced_),
        }
        return classifier.coef_, classifier.intercept_, chosen
    regressor = _WatchedRegressor(folds=_FOLDS, random_state=seed)
    regressor.tick = tick
    regressor.fit(features, targets, domains=domains)
    chosen = {
        "gradient_weight": regressor.gradient_weight_,
        "l2": regressor.l2_,
        "domains_count_alike": bool(regressor.balanced_),
    }
    return np.atleast_2d(regressor.coef_), np.atleast_1d(regressor.intercept_), chosen


def ticks(domains: int, *, grouped: bool) -> int:
    """How many parts a search on so many training domains has."""
    if grouped:
        return 2 * _FOLDS
    return 2 * domains if domains > 2 else domains + 2 * _FOLDS


class _Watched:
    """Calls :attr:`tick` after every part of the search."""

    tick: Tick

    def _heads(self, *arguments: Any) -> Any:
        heads = super()._heads(*arguments)  # type: ignore[misc]  # the estimator's
        self.tick()
        return heads


class _WatchedClassifier(_Watched, MomentAlignedClassifierCV):
    pass


class _WatchedRegressor(_Watched, MomentAlignedRegressorCV):
    pass


def with_head(model: ProbeModel, coef: Array, intercept: Array, classes: tuple[str, ...] | None) -> ProbeModel:
    """A preparation with a head of its own."""
    return ProbeModel(model.columns, model.mean, model.scale, model.matrix, coef, intercept, classes, model.about)


def time_one_fit(
    features: Array, targets: NDArray[Any], domains: NDArray[np.str_], classes: tuple[str, ...] | None
) -> None:
    """One fit with penalties, to see how long it takes."""
    codes = np.unique(domains, return_inverse=True)[1]
    if classes is None:
        fit_least_squares(features, targets[:, None], codes, 1.0)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit_head(features, targets, codes, {1: 1.0, 2: 10.0}, classes=len(classes), l2=1e-2, tol=1e-3, max_iter=100)
