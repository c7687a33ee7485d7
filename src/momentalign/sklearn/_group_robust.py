"""A linear classifier for the worst group."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from momentalign._errors import warn_user
from momentalign._validation import check_choice, check_count, check_weight
from momentalign.linear import PUBLISHED_CS, LinearHead, balance_weights, fit_group_dro, fit_head, fit_subsampled
from momentalign.sklearn._base import FitRows
from momentalign.sklearn._groups import GroupClassifier

REMEDIES = ("balanced", "subsampled", "groupdro", "dfr", "cma")


class GroupRobustClassifier(GroupClassifier):
    r"""Logistic regression for the worst group, by one of several published methods.

    Without a remedy the loss is the mean over rows, which the largest groups determine. Each of these changes the rows
    or their weights; all but `"dfr"` have an L2 of half of `l2` times the squared norm of the coefficients.

    - `"balanced"`: groups weighted equally (RWG).
    - `"subsampled"`: mean of the heads of `draws` subsamples with as many rows of every group as the smallest (SUBG).
    - `"groupdro"`: least loss of the group with the largest one, at the saddle point.
    - `"dfr"`: :class:`DFRClassifier`, L1 chosen by the worst group and the mean of refits on balanced subsamples.
    - `"cma"`: gradients and Hessians aligned across domains, the values of the attribute; groups weighted
      equally in each domain, and domains equally.

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
        validation: Fraction of every group's rows that is held out where `fit` gets no mask; None: all (`dfr`).
        gradient_weight: Weight of the gradients' spread, relative to its largest value (`cma`).
        hessian_weight: Weight of the Hessians' spread, relative to its largest value (`cma`).
        fit_intercept: Whether to fit an intercept; `dfr` always does.
        tol: Largest entry of the gradient at the solution; of `groupdro` the gap between the worst group's loss and the
            weighted one, relative to the loss of a head of zeros.
        max_iter: Maximum number of iterations of a fit.
        random_state: Seed of subsamples and held-out rows.

    Attributes:
        groups_: Labels of the groups, shape (G,).
        group_sizes_: Number of rows of each, shape (G,).
        group_weights_: Weight of each group in the loss, shape (G,); `groupdro` only.
        C_: The chosen C; `dfr` only.
        scores_: Accuracy of the worst group under each C; `dfr` only.
        validation_: Mask of the held-out rows, shape (n,); `dfr` only.
        classes_: The classes, shape (C,).
        coef_: Shape (C, d), (1, d) for two classes.
        intercept_: Shape (C,), (1,) for two classes.
        n_iter_: Iterations of the solver, of the longest fit where there are several; of `groupdro` moves of the
            groups' weights.
        n_features_in_: Number of features.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "no", "yes", "yes"]
        >>> clf = GroupRobustClassifier(method="balanced").fit(X, y, groups=["no, a", "no, a", "yes, b", "yes, b"])
        >>> clf.groups_, clf.group_sizes_
        (array(['no, a', 'yes, b'], dtype='<U6'), array([2, 2]))
    """

    def __init__(
        self,
        method: str = "subsampled",
        *,
        l2: float | None = None,
        draws: int = 10,
        Cs: Sequence[float] = PUBLISHED_CS,
        refits: int | None = None,
        refit_on: str = "validation",
        validation: float | None = None,
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
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Args:
            X: Shape (n, d).
            y: Classes, shape (n,).
            groups: Group of each row, for example class and attribute: strings or integers, shape (n,). None takes the
                pairs of class and domain; without domains the classes, with a warning.
            domains: Attribute of each row, shape (n,). `cma` aligns across its values; the other methods use it only
                where there are no groups.
            validation: True for held-out rows, shape (n,), with `dfr`, which refits on them; an error elsewhere. None
                uses the fraction of the constructor.
            sample_weight: Weight of each row within its group, shape (n,). Rows of weight 0 count as left out; other
                weights do not change how subsamples are drawn.

        Returns:
            The fitted estimator.
        """
        check_choice("method", self.method, REMEDIES)
        self._check_dfr()
        for name in ("gradient_weight", "hessian_weight", "tol", *(["l2"] if self.l2 is not None else [])):
            check_weight(name, getattr(self, name))
        check_count("draws", self.draws, 1)
        if validation is not None and self.method != "dfr":
            raise TypeError(f"method '{self.method}' holds no rows out, but 'validation' was given. Leave it out.")
        rows, number = self._take_rows(X, y, groups, domains, validation, sample_weight)
        self._store(self._fit(rows, check_random_state(self.random_state), number))
        return self

    def _fit(self, rows: FitRows, random: np.random.RandomState, number: int) -> LinearHead:
        """Fit one of the methods to the rows, which were `number` as given."""
        groups, lonely = rows.groups, self.groups_[self.group_sizes_ == 1].tolist()
        assert groups is not None
        options: dict[str, Any] = {
            "classes": len(self.classes_),
            "bias": self.fit_intercept,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "l2": self.l2,
        }
        if self.method == "dfr":
            return self._fit_dfr(rows, random, number)
        if self.method == "subsampled":
            self._check_sizes(groups, 2, "training", "Use method='balanced'")
            options |= {"draws": self.draws, "random": random, "sample_weight": rows.weights}
            return fit_subsampled(rows.features, rows.targets, groups, **options)
        if lonely:
            warn_user(
                f"Groups of one row count as much as any other: {', '.join(map(repr, lonely))}. Merge them with "
                "another group, or drop these rows."
            )
        if self.l2 is None:
            options["l2"] = rows.unit_l2
        if self.method == "groupdro":
            options["sample_weight"] = rows.weights
            head, self.group_weights_ = fit_group_dro(rows.features, rows.targets, groups, **options)
            return head
        domains = rows.domains if self.method == "cma" else None
        if domains is not None:
            pairs = np.unique(np.column_stack([domains, rows.targets]), axis=0)
            single = (np.bincount(pairs[:, 0]) == 1).sum()
            if single:
                warn_user(
                    f"{single} of {len(np.unique(domains))} 'domains' hold rows of one class only. Alignment then "
                    "compares classes, not attributes: merge these domains with others, or use method='balanced'."
                )
            groups = np.unique(np.column_stack([domains, groups]), axis=0, return_inverse=True)[1].ravel()
        elif self.method == "cma":
            warn_user(
                "Without 'domains' method 'cma' has nothing to align and is method 'balanced'. Pass the attribute of "
                "each row: fit(X, y, groups=group, domains=attribute)."
            )
        options["sample_weight"] = balance_weights(groups, rows.weights)
        weights = {1: self.gradient_weight, 2: self.hessian_weight}
        return fit_head(rows.features, rows.targets, domains, weights, **options)
