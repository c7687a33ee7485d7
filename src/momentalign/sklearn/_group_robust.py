"""A linear classifier for the worst group."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from momentalign._validation import check_choice, check_count, check_weight
from momentalign.linear import PUBLISHED_CS
from momentalign.sklearn._remedies import REMEDIES, WITHOUT_GROUPS, Remedies


class GroupRobustClassifier(Remedies):
    r"""Logistic regression for the worst group, by one of several published methods.

    Without a remedy the loss is the mean over rows, which the largest groups determine. Each of these changes the rows
    or their weights; all but `"dfr"` have an L2 of half of `l2` times the squared norm of the coefficients.

    - `"balanced"`: groups weighted equally (RWG).
    - `"subsampled"`: mean of the heads of `draws` subsamples with as many rows of every group as the smallest (SUBG).
    - `"groupdro"`: least loss of the group with the largest one, at the saddle point.
    - `"dfr"`: :class:`DFRClassifier`, L1 chosen by the worst group and the mean of refits on balanced subsamples.
    - `"afr"`: the plain head of the training rows, refitted on held-out rows with weights exp(−γp) over the frequency
      of the class, p being the true class's probability, and with L2 towards the plain head. Needs no groups to fit.
    - `"jtt"`: a plain head, then a second one with more weight for the rows that the first misclassifies. L2 of the
      first stands for the published number of epochs. Needs no groups to fit.
    - `"cma"`: gradients and Hessians aligned across domains, the values of the attribute; groups weighted
      equally in each domain, and domains equally.

    `"dfr"`, `"afr"` and `"jtt"` choose among the settings below by `selection`:

    - `"worst_group"`: accuracy of the worst group. Needs the groups of the rows that decide: the held-out ones of a
      mask, else all.
    - `"worst_class"`: accuracy of the worst class. Needs labels only, so that held-out rows, or all of them for `"afr"`
      and `"jtt"`, may be without groups.
    - `"train_groups"`: accuracy of the worst group of the training rows. Needs groups there only; those of held-out
      rows may be missing (None or NaN).

    Rows that decide are never among those that were fitted: they are left out in five folds (one half with `"dfr"`).

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
        selection: As above; None is `"worst_group"`, or `"worst_class"` without any groups.
        gammas: Candidates for γ: how much less rows count that the plain head gets right; 0 balances the classes only.
            Ties go to the earlier setting, here and below (`afr`).
        afr_l2s: Candidates for the weight of half the squared distance from the plain head, intercept included (`afr`).
        upweights: Candidates for the weight of misclassified rows; 1 is the plain head (`jtt`).
        first_l2_factors: Candidates for L2 of the first head, times that of the second (`jtt`).
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
        afr_l2_: The chosen weight of the distance; `afr` only.
        upweight_: The chosen weight of misclassified rows; `jtt` only.
        first_l2_factor_: The chosen factor of the first head's L2; `jtt` only.
        scores_: Accuracy of the worst group or class of each setting: `Cs`, `gammas` × `afr_l2s`, or
            `first_l2_factors` × `upweights`; empty where there is one; `dfr`, `afr` and `jtt` only.
        validation_: Mask of the held-out rows, shape (n,); `dfr` and `afr` only.
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
        selection: str | None = None,
        gammas: Sequence[float] = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0),
        afr_l2s: Sequence[float] = (1.0, 0.1, 0.01),
        upweights: Sequence[float] = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
        first_l2_factors: Sequence[float] = (1.0, 30.0, 1000.0),
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
        self.selection = selection
        self.gammas = gammas
        self.afr_l2s = afr_l2s
        self.upweights = upweights
        self.first_l2_factors = first_l2_factors
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
                pairs of class and domain; without domains the classes, with a warning, or nothing for `afr` and `jtt`.
                None or NaN in a row: its group is not known, which `dfr`, `afr` and `jtt` allow, see `selection`.
            domains: Attribute of each row, shape (n,). `cma` aligns across its values; the other methods use it only
                where there are no groups.
            validation: True for held-out rows, shape (n,), with `dfr` and `afr`, which refit on them, and `jtt`, which
                does not fit them; an error elsewhere. None uses the fraction of the constructor.
            sample_weight: Weight of each row within its group, shape (n,); with `afr` and `jtt` times their own
                weights. Rows of weight 0 count as left out. Other weights do not change how subsamples and folds are
                drawn, and each row scored counts once.

        Returns:
            The fitted estimator.
        """
        self._check_parameters()
        chosen = self.method in ("dfr", "afr", "jtt")
        if validation is not None and not chosen:
            raise TypeError(f"method '{self.method}' holds no rows out, but 'validation' was given. Leave it out.")
        rows = self._take_rows(
            X, y, groups, domains, validation, sample_weight, partial=chosen, optional=self.method in WITHOUT_GROUPS
        )
        self._store(REMEDIES[self.method](self, rows, check_random_state(self.random_state)))
        return self

    def _check_parameters(self) -> None:
        check_choice("method", self.method, REMEDIES)
        self._check_selection()
        self._check_reweighting()
        if self.l2 is not None:
            check_weight("l2", self.l2)
        for name in ("gradient_weight", "hessian_weight", "tol"):
            check_weight(name, getattr(self, name))
        for name in ("gammas", "afr_l2s", "upweights", "first_l2_factors"):
            values = getattr(self, name)
            if not len(values):
                raise ValueError(f"'{name}' should hold at least one number, but is empty.")
            for value in values:
                check_weight(name, value)
        check_count("draws", self.draws, 1)
