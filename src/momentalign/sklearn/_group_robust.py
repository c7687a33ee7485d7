"""A linear classifier for the worst group."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_random_state

from momentalign._errors import warn_user
from momentalign._types import Integers
from momentalign._validation import (
    check_blanks,
    check_choice,
    check_column,
    check_count,
    check_nonnegative,
    check_number,
    check_weight,
)
from momentalign.linear import (
    PUBLISHED_CS,
    PUBLISHED_REFITS,
    LinearHead,
    balance_weights,
    fit_dfr,
    fit_group_dro,
    fit_head,
    fit_subsampled,
    split_groups,
)
from momentalign.sklearn._base import FitRows, LogitClassifier, check_weights, encode_labels

REMEDIES = ("balanced", "subsampled", "groupdro", "dfr", "cma")


@dataclass(eq=False, repr=False)
class GroupRobustClassifier(LogitClassifier):
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

    method: str = "subsampled"
    _: KW_ONLY
    l2: float | None = None
    draws: int = 10
    Cs: Sequence[float] = PUBLISHED_CS
    refits: int | None = None
    refit_on: str = "validation"
    validation: float | None = None
    gradient_weight: float = 1.0
    hessian_weight: float = 0.0
    fit_intercept: bool = True
    tol: float = 1e-4
    max_iter: int = 1000
    random_state: int | np.random.RandomState | None = 0

    # Unlike for the estimators with domains: 'groups' are splitters' as well, so a request has to be stated.
    __metadata_request__fit: ClassVar = {"groups": None}

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
        self._check_parameters()
        if validation is not None and self.method != "dfr":
            raise TypeError(f"method '{self.method}' holds no rows out, but 'validation' was given. Leave it out.")
        features, targets = self._validate_targets(X, y)
        number, attributes = len(features), None
        weights, kept = check_weights(sample_weight, features)
        if domains is not None:
            labels, attributes = encode_labels(domains, number)
        if groups is not None:
            self.groups_, units = encode_labels(groups, number, "groups")
            check_blanks("groups", self.groups_.tolist())
        elif attributes is not None:
            pairs = [
                f"{self.classes_[target]}|{labels[code]}" for target, code in zip(targets, attributes, strict=True)
            ]
            self.groups_, units = encode_labels(pairs, number, "groups")
        else:
            warn_user(
                f"Without 'groups' {type(self).__name__} takes the classes as groups. Pass the group of each row: "
                "fit(X, y, groups=group); in cross-validation params={'groups': group}, where metadata routing is on "
                "with set_fit_request(groups=True)."
            )
            self.groups_, units = self.classes_, targets
        mask = None if validation is None else np.asarray(validation)
        if mask is not None:
            check_column("validation", mask.shape, number, "X")
            if mask.dtype != bool:
                raise TypeError(f"'validation' should be a mask of True and False, but its dtype is {mask.dtype}.")
        for kind, names, column in (("class", self.classes_, targets), ("group", self.groups_, units)):
            sizes = np.bincount(column[kept], minlength=len(names))
            if not sizes.all():
                raise ValueError(
                    f"Every {kind} should have rows with a 'sample_weight' above 0, but "
                    f"{names.tolist()[sizes.argmin()]!r} has none. Leave its rows out."
                )
        self.group_sizes_ = sizes
        rows, units = FitRows(features, targets, attributes).take(kept)._replace(weights=weights), units[kept]
        random = check_random_state(self.random_state)
        if self.method == "dfr":
            if mask is not None:
                held_out = mask[kept]
            elif self.validation is not None:
                held_out = split_groups(units, self.validation, random)
            else:
                held_out = np.ones(len(units), dtype=bool)
            head = self._fit_dfr(rows, units, held_out, random)
            self.validation_ = np.zeros(number, dtype=bool)
            self.validation_[kept] = held_out
        else:
            head = self._fit(rows, units, random)
        self._store(head)
        return self

    def _check_parameters(self) -> None:
        """Check the arguments of the constructor before any work."""
        check_choice("method", self.method, REMEDIES)
        check_choice("refit_on", self.refit_on, PUBLISHED_REFITS)
        for name in ("gradient_weight", "hessian_weight", "tol", *(["l2"] if self.l2 is not None else [])):
            check_weight(name, getattr(self, name))
        for name in ("draws", "max_iter", *(["refits"] if self.refits is not None else [])):
            check_count(name, getattr(self, name), 1)
        if not len(self.Cs) or 0 in [check_nonnegative("Cs", C) for C in self.Cs]:
            raise ValueError(f"'Cs' should hold at least one number, all above 0, but is {self.Cs!r}.")
        if self.validation is not None and not 0 < check_number("validation", self.validation) < 1:
            raise ValueError(
                f"'validation' should lie between 0 and 1, but is {self.validation!r}. Or pass a mask to 'fit'."
            )

    def _fit(self, rows: FitRows, groups: Integers, random: np.random.RandomState) -> LinearHead:
        """Fit one of the methods without held-out rows."""
        options: dict[str, Any] = {
            "classes": len(self.classes_),
            "bias": self.fit_intercept,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "l2": self.l2,
            "sample_weight": rows.weights,
        }
        if self.method == "subsampled":
            self._check_sizes(groups, 2, "training", "Use method='balanced'")
            return fit_subsampled(rows.features, rows.targets, groups, draws=self.draws, random=random, **options)
        if lonely := self.groups_[self.group_sizes_ == 1].tolist():
            warn_user(
                f"Groups of one row count as much as any other: {', '.join(map(repr, lonely))}. Merge them with "
                "another group, or drop these rows."
            )
        options["l2"] = rows.unit_l2 if self.l2 is None else self.l2
        if self.method == "groupdro":
            head, self.group_weights_ = fit_group_dro(rows.features, rows.targets, groups, **options)
            return head
        domains = rows.domains if self.method == "cma" else None
        if domains is not None:
            single = (contingency_matrix(domains, rows.targets) > 0).sum(1) == 1
            if single.any():
                warn_user(
                    f"{single.sum()} of {len(single)} 'domains' hold rows of one class only. Alignment then "
                    "compares classes, not attributes: merge these domains with others, or use method='balanced'."
                )
            groups = domains * len(self.groups_) + groups
        elif self.method == "cma":
            warn_user(
                "Without 'domains' method 'cma' has nothing to align and is method 'balanced'. Pass the attribute of "
                "each row: fit(X, y, groups=group, domains=attribute)."
            )
        options["sample_weight"] = balance_weights(groups, rows.weights)
        weights = {1: self.gradient_weight, 2: self.hessian_weight}
        return fit_head(rows.features, rows.targets, domains, weights, **options)

    def _fit_dfr(
        self, rows: FitRows, groups: Integers, held_out: NDArray[np.bool_], random: np.random.RandomState
    ) -> LinearHead:
        """DFR; sets `C_` and `scores_`."""
        least = 2
        if self.refit_on == "training":
            if held_out.all():
                raise ValueError(
                    "refit_on='training' needs rows that are not held out, but all are. "
                    "Pass validation=0.5, or a mask to 'fit'."
                )
            self._check_sizes(groups[~held_out], 2, "training", "Hold fewer of its rows out")
            least = 1
        self._check_sizes(groups[held_out], least, "held-out", "Hold more of its rows out")
        fit = fit_dfr(
            rows.features,
            rows.targets,
            groups,
            held_out=held_out,
            refit_on=self.refit_on,
            classes=len(self.classes_),
            Cs=self.Cs,
            refits=PUBLISHED_REFITS[self.refit_on] if self.refits is None else self.refits,
            random=random,
            max_iter=self.max_iter,
            sample_weight=rows.weights,
        )
        self.C_, self.scores_ = fit.C, fit.scores
        return fit.head

    def _check_sizes(self, codes: Integers, least: int, kind: str, advice: str) -> None:
        """Raise a ValueError that names the groups with fewer than `least` rows among those of some kind."""
        sizes = np.bincount(codes, minlength=len(self.groups_)).tolist()
        labels = zip(self.groups_.tolist(), sizes, strict=True)
        if small := [f"{label!r} has {size}" for label, size in labels if size < least]:
            raise ValueError(
                f"Every group should have at least {least} {kind} rows, but {', '.join(small)}. {advice}, or merge it "
                "with another group."
            )
