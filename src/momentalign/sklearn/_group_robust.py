"""Remedies for worst groups, as linear heads on fixed features."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from momentalign._types import Array
from momentalign._validation import check_choice, check_count, check_weight
from momentalign.linear import (
    PUBLISHED_CS,
    LinearHead,
    balance_weights,
    fit_afr,
    fit_group_dro,
    fit_head,
    jtt_weights,
    subsample_groups,
)
from momentalign.sklearn._base import encode_labels
from momentalign.sklearn._dfr import DFRClassifier
from momentalign.sklearn._groups import GroupClassifier, check_fraction, validation_mask

_AFR_SHARE = 0.2


class _Rows(NamedTuple):
    """Validated arguments of `fit`; groups and domains as indices."""

    features: NDArray[np.floating]
    targets: NDArray[np.int64]
    groups: NDArray[np.int64]
    domains: NDArray[np.int64] | None
    validation: ArrayLike | None


class GroupRobustClassifier(GroupClassifier):
    r"""Logistic regression for the worst group, by one of the remedies in use.

    Without a remedy the loss is the mean over rows, which the largest groups determine. Each of these changes the rows
    or their weights; all but `"dfr"` have an L2 of half of `l2` times the squared norm of the coefficients.

    - `"balanced"`: groups count alike, by weights of the rows (RWG).
    - `"subsampled"`: mean of the heads of `draws` subsamples with as many rows of every group as the smallest (SUBG).
    - `"groupdro"`: least loss of the group with the largest one, at the saddle point.
    - `"dfr"`: :class:`DFRClassifier`, L1 chosen by the worst group and the mean of refits on balanced subsamples.
    - `"afr"`: the plain head of the training rows, refitted on held-out rows with weights exp(−γp) over the frequency
      of the class, p being the true class's probability, and with L2 towards the plain head. γ is chosen by the worst
      group, without groups by the worst class, on the training rows. Needs no groups.
    - `"jtt"`: a plain head, then a second one with `upweight` for the rows that the first misclassifies, on the same
      features; the published first model stops early. Needs no groups.
    - `"cma"`: gradients and Hessians aligned across domains, the values of the attribute; groups count alike in each
      domain, and domains count alike.

    What is gained for the worst group is paid by the average: the rows of large groups count less. Standardise the
    columns first; `"dfr"` does so itself.

    Args:
        method: One of those above.
        l2: Weight of half the squared norm of the coefficients; None is 1/n with n the rows of a fit, that of
            `LogisticRegression()`.
        draws: Subsamples (`subsampled`).
        Cs: Candidates for the inverse strength of L1 (`dfr`).
        refits: Subsamples that are averaged; None is 20, or 10 on training rows (`dfr`).
        refit_on: `"validation"` or `"training"` rows (`dfr`).
        validation: Fraction of rows that is held out where `fit` gets no mask, of every group (`dfr`) or class (`afr`).
            None holds out all rows (`dfr`) or 0.2 of them (`afr`).
        gammas: Candidates for γ: how much less rows count that the plain head gets right; 0 balances the classes only.
            Ties go to the earlier one (`afr`).
        afr_l2: Weight of half the squared distance from the plain head, intercept included (`afr`).
        upweight: Weight of misclassified rows (`jtt`).
        gradient_weight: Weight of the gradients' spread, relative to its largest value (`cma`).
        hessian_weight: Weight of the Hessians' spread, relative to its largest value (`cma`).
        fit_intercept: Whether to fit an intercept; `dfr` always does.
        tol: Largest entry of the gradient at the solution; of `groupdro` the gap between the worst group's loss and the
            weighted one, relative to the loss of a head of zeros.
        max_iter: Maximum number of iterations of a fit.
        random_state: Seed of subsamples and held-out rows.

    Attributes:
        groups_: Labels of the groups, shape (G,); empty where `afr` and `jtt` had none.
        group_sizes_: Number of rows of each, shape (G,).
        group_weights_: Weight of each group in the loss, shape (G,); `groupdro` only.
        C_: The chosen C; `dfr` only.
        gamma_: The chosen γ; `afr` only.
        validation_: Mask of the held-out rows, shape (n,); `dfr` and `afr` only.
        classes_: The classes, shape (C,).
        coef_: Shape (C, d), (1, d) for two classes.
        intercept_: Shape (C,), (1,) for two classes.
        n_iter_: Iterations of the solver, of the longest fit where there are several; of `groupdro` moves of the
            groups' weights.
        n_features_in_: d.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "no", "yes", "yes"]
        >>> clf = GroupRobustClassifier(method="balanced").fit(X, y, groups=["no, a", "no, a", "yes, b", "yes, b"])
        >>> clf.groups_, clf.group_sizes_
        (array(['no, a', 'yes, b'], dtype='<U6'), array([2, 2]))
    """

    def __init__(
        self,
        method: str = "balanced",
        *,
        l2: float | None = None,
        draws: int = 10,
        Cs: Sequence[float] = PUBLISHED_CS,
        refits: int | None = None,
        refit_on: str = "validation",
        validation: float | None = None,
        gammas: Sequence[float] = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0),
        afr_l2: float = 0.1,
        upweight: float = 5.0,
        gradient_weight: float = 1.0,
        hessian_weight: float = 0.0,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.method = method
        self.l2 = l2
        self.draws = draws
        self.Cs = Cs
        self.refits = refits
        self.refit_on = refit_on
        self.validation = validation
        self.gammas = gammas
        self.afr_l2 = afr_l2
        self.upweight = upweight
        self.gradient_weight = gradient_weight
        self.hessian_weight = hessian_weight
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        *,
        domains: ArrayLike | None = None,
        validation: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Args:
            X: Shape (n, d).
            y: Classes, shape (n,).
            groups: Group of each row, for example class and attribute: strings or integers, shape (n,). None takes the
                pairs of class and domain, or without domains the classes, with a warning.
            domains: Attribute of each row, shape (n,). `cma` aligns across its values; the other methods use it only
                where there are no groups.
            validation: True for held-out rows, shape (n,), with `dfr` and `afr`; an error elsewhere. None uses the
                fraction of the constructor.

        Returns:
            The fitted estimator.
        """
        self._check_parameters()
        if validation is not None and self.method not in ("dfr", "afr"):
            raise TypeError(f"method '{self.method}' holds no rows out, but 'validation' was given. Leave it out.")
        features, targets = self._validate_targets(X, y)
        codes = attributes = None
        if domains is not None:
            labels, codes = encode_labels(domains, len(features))
            attributes = labels[codes]
        if self.method in ("afr", "jtt") and groups is None:
            self.groups_, self.group_sizes_ = np.empty(0, dtype=object), np.empty(0, dtype=np.int64)
            units = np.zeros(len(features), dtype=np.int64)
        else:
            units = self._take_groups(groups, targets, attributes)
        random = check_random_state(self.random_state)
        self._store(_FITS[self.method](self, _Rows(features, targets, units, codes, validation), random))
        return self

    def _balanced(self, rows: _Rows, random: np.random.RandomState) -> LinearHead:
        self._warn_single()
        return self._head(rows, np.arange(len(rows.targets)), balance_weights(rows.groups))

    def _subsampled(self, rows: _Rows, random: np.random.RandomState) -> LinearHead:
        self._check_sizes(rows.groups, 2, "training", "Use method='balanced'")
        heads = [self._head(rows, subsample_groups(rows.groups, random)) for _ in range(self.draws)]
        coef, intercept = (np.mean([getattr(head, name) for head in heads], axis=0) for name in ("coef", "intercept"))
        return replace(heads[0], coef=coef, intercept=intercept, n_iter=max(head.n_iter for head in heads))

    def _group_dro(self, rows: _Rows, random: np.random.RandomState) -> LinearHead:
        self._warn_single()
        head, self.group_weights_ = fit_group_dro(
            rows.features,
            rows.targets,
            rows.groups,
            l2=1.0 / len(rows.targets) if self.l2 is None else self.l2,
            **self._options(),
        )
        return head

    def _dfr(self, rows: _Rows, random: np.random.RandomState) -> LinearHead:
        names = ("Cs", "refits", "refit_on", "validation", "max_iter")
        dfr = DFRClassifier(**{name: getattr(self, name) for name in names}, random_state=random)
        dfr.fit(rows.features, self.classes_[rows.targets], self.groups_[rows.groups], validation=rows.validation)
        self.C_, self.validation_ = dfr.C_, dfr.validation_
        return LinearHead(dfr.coef_, dfr.intercept_, np.nan, dfr.n_iter_, True)

    def _afr(self, rows: _Rows, random: np.random.RandomState) -> LinearHead:
        share = _AFR_SHARE if self.validation is None else self.validation
        self.validation_ = held_out = validation_mask(rows.validation, share, rows.targets, random)
        self._check_classes(rows.targets, held_out)
        plain = self._head(rows, np.flatnonzero(~held_out))
        options = {key: value for key, value in self._options().items() if key != "classes"}
        head, self.gamma_ = fit_afr(
            plain,
            rows.features,
            rows.targets,
            rows.groups if len(self.groups_) else rows.targets,
            held_out,
            gammas=self.gammas,
            l2=self.afr_l2,
            **options,
        )
        return head

    def _jtt(self, rows: _Rows, random: np.random.RandomState) -> LinearHead:
        every = np.arange(len(rows.targets))
        first = self._head(rows, every)
        return self._head(rows, every, jtt_weights(rows.targets, first.predict(rows.features), self.upweight))

    def _cma(self, rows: _Rows, random: np.random.RandomState) -> LinearHead:
        if rows.domains is None:
            warnings.warn(
                "Without 'domains' method 'cma' has nothing to align and is method 'balanced'. Pass the attribute of "
                "each row: fit(X, y, groups=group, domains=attribute).",
                UserWarning,
                stacklevel=3,
            )
            return self._balanced(rows, random)
        self._warn_single()
        cells = np.unique(np.column_stack([rows.domains, rows.groups]), axis=0, return_inverse=True)[1].ravel()
        weights = {1: self.gradient_weight, 2: self.hessian_weight}
        return self._head(rows, np.arange(len(rows.targets)), balance_weights(cells), rows.domains, weights)

    def _head(
        self,
        rows: _Rows,
        index: NDArray[np.intp],
        sample_weight: Array | None = None,
        domains: NDArray[np.int64] | None = None,
        order_weights: dict[int, float] | None = None,
    ) -> LinearHead:
        return fit_head(
            rows.features[index],
            rows.targets[index],
            domains,
            order_weights,
            sample_weight=sample_weight,
            l2=1.0 / len(index) if self.l2 is None else self.l2,
            **self._options(),
        )

    def _options(self) -> dict[str, Any]:
        return {
            "classes": len(self.classes_),
            "bias": self.fit_intercept,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }

    def _check_parameters(self) -> None:
        check_choice("method", self.method, _FITS)
        if self.l2 is not None:
            check_weight("l2", self.l2)
        for name in ("afr_l2", "upweight", "gradient_weight", "hessian_weight", "tol"):
            check_weight(name, getattr(self, name))
        if not len(self.gammas):
            raise ValueError("'gammas' should hold at least one number, but is empty.")
        for gamma in self.gammas:
            check_weight("gammas", gamma)
        check_count("draws", self.draws, 1)
        check_count("max_iter", self.max_iter, 1)
        check_fraction(self.validation)


_FITS = {
    "balanced": GroupRobustClassifier._balanced,
    "subsampled": GroupRobustClassifier._subsampled,
    "groupdro": GroupRobustClassifier._group_dro,
    "dfr": GroupRobustClassifier._dfr,
    "afr": GroupRobustClassifier._afr,
    "jtt": GroupRobustClassifier._jtt,
    "cma": GroupRobustClassifier._cma,
}
