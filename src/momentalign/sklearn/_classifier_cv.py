"""The classifier that chooses its weights inside the training domains."""

import warnings
from collections.abc import Sequence
from itertools import groupby, product
from typing import Any, NamedTuple, Self, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear import LinearHead, fit_path
from momentalign.sklearn._domains import encode_domains
from momentalign.sklearn._linear_classifier import LinearClassifier
from momentalign.sklearn._selection import choose, domain_splits, fold_splits


class Setting(TypedDict):
    """A candidate: the weights, L2, and whether domains count alike in the loss or rows do."""

    gradient_weight: float
    hessian_weight: float
    l2: float
    balanced: bool


class MomentAlignedClassifierCV(LinearClassifier):
    r""":class:`MomentAlignedClassifier` with weights chosen inside the training domains, plain models among them.

    The first candidates are plain logistic regressions, in which all rows count alike; then come the grid's settings,
    in which all domains do, weight 0 among them. `selection="leave_one_domain_out"` fits on all training domains but
    one, scores on that one, and takes the mean over the domains. It needs three: with two, what is left is one domain,
    in which there is nothing to align and all weights are the same. Two domains are therefore scored on held-out folds
    of both, by the worse of the two. `selection="worst_group"` scores on held-out folds by the worst group.

    A setting has to earn its place: its score is the gain in accuracy over the first plain model, on the same rows,
    less one standard error of that gain. So a difference that is noise ends at logistic regression.

    Without `domains` there is nothing to choose by: the plain model with the first of `l2s`.

    Args:
        gradient_weights: Candidates for the weight of the gradients' spread; 0 is added.
        hessian_weights: Candidates for the weight of the Hessians' spread; 0 is added.
        l2s: Candidates for the weight of half the squared norm of the coefficients; gains are over the first.
        selection: `"leave_one_domain_out"` or `"worst_group"`.
        rule: `"one_standard_error"`, or `"best"`: the largest gain, whatever its uncertainty.
        folds: Number of folds where folds are used.
        scaling: `"relative"`, `"none"`, `"classes"` or `"parameters"`.
        fit_intercept: Whether to have an intercept.
        tol: Largest entry of the gradient at a solution.
        max_iter: Most iterations of a fit.
        random_state: Seed of the folds.

    Attributes:
        gradient_weight_: Chosen weight of the gradients' spread.
        hessian_weight_: Chosen weight of the Hessians' spread.
        l2_: Chosen L2.
        balanced_: Whether domains count alike in the loss of the chosen setting; if not, rows do.
        candidates_: The settings, a dictionary each.
        scores_: Score of each candidate, shape (m,); NaN where nothing could be scored.
        standard_errors_: Of the gain over the first candidate, shape (m,).
        classes_: The classes, shape (C,).
        coef_: Shape (C, d), (1, d) for two classes; of the fit on all rows.
        intercept_: Shape (C,), (1,) for two classes.
        domains_: Labels of the training domains; empty without them.
        aligned_: Whether a weight other than 0 was chosen.
        n_iter_: Iterations of the fit on all rows.
        n_features_in_: d.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, y, site = rng.normal(size=(90, 2)), np.arange(90) % 2, np.repeat(["a", "b", "c"], 30)
        >>> X[:, 0] += y
        >>> clf = MomentAlignedClassifierCV().fit(X, y, domains=site)
        >>> clf.candidates_[0]
        {'gradient_weight': 0.0, 'hessian_weight': 0.0, 'l2': 0.001, 'balanced': False}
        >>> len(clf.candidates_), clf.scores_.shape
        (39, (39,))
    """

    def __init__(
        self,
        gradient_weights: Sequence[float] = (0.0, 1.0, 10.0),
        hessian_weights: Sequence[float] = (0.0, 1.0, 10.0, 100.0),
        l2s: Sequence[float] = (1e-3, 1e-2, 1e-1),
        *,
        selection: str = "leave_one_domain_out",
        rule: str = "one_standard_error",
        folds: int = 5,
        scaling: str = "relative",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.gradient_weights = gradient_weights
        self.hessian_weights = hessian_weights
        self.l2s = l2s
        self.selection = selection
        self.rule = rule
        self.folds = folds
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        domains: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Choose the weights, then fit all rows with them.

        Args:
            X: Shape (n, d).
            y: Classes, shape (n,).
            domains: Where each row came from: strings or integers, shape (n,). None chooses and aligns nothing.
            groups: Groups whose worst decides with `selection="worst_group"`, shape (n,); by default the pairs of
                domain and class that occur.
            sample_weight: Weight of each row within its domain, shape (n,); scores count rows alike.

        Returns:
            The fitted estimator.
        """
        self.candidates_ = self._check_parameters()
        features, targets, codes, weights = self._validate(X, y, domains, sample_weight)
        rows = _Rows(features, targets, codes, weights)
        self.scores_ = self.standard_errors_ = np.full(len(self.candidates_), np.nan)
        chosen = self.candidates_[0]
        if codes is not None and len(self.domains_) > 1:
            units = self._units(targets, codes, groups)
            hits = np.empty((len(self.candidates_), len(targets)))
            for train, test in self._splits(targets, codes, units):
                fitted = self._fit_candidates(rows.of(train))
                hits[:, test] = [_hits(head, features[test], targets[test]) for head in fitted]
            worst = self.selection == "worst_group" or len(self.domains_) == 2
            choice = choose(hits, units, worst=worst, cautious=self.rule == "one_standard_error")
            self.scores_, self.standard_errors_ = choice.scores, choice.errors
            chosen = self.candidates_[choice.candidate]
        self.gradient_weight_, self.hessian_weight_ = chosen["gradient_weight"], chosen["hessian_weight"]
        self.l2_, self.balanced_ = chosen["l2"], bool(chosen["balanced"])
        self.aligned_ = self.gradient_weight_ + self.hessian_weight_ > 0
        head = self._fit_path(rows, [chosen])[0]
        self.coef_, self.intercept_, self.n_iter_ = head.coef, head.intercept, head.n_iter
        return self

    def _check_parameters(self) -> list[Setting]:
        """Check the constructor's arguments before any work; the candidates, plain ones first."""
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("selection", self.selection, ("leave_one_domain_out", "worst_group"))
        check_choice("rule", self.rule, ("one_standard_error", "best"))
        check_weight("tol", self.tol)
        check_count("max_iter", self.max_iter, 1)
        check_count("folds", self.folds, 2)
        grids = [
            sorted({0.0, *(check_weight(name, weight) for weight in getattr(self, name))})
            for name in ("gradient_weights", "hessian_weights")
        ]
        l2s = [check_weight("l2s", l2) for l2 in self.l2s]
        if not l2s:
            raise ValueError("'l2s' should hold at least one value, but is empty.")
        plain = [Setting(gradient_weight=0.0, hessian_weight=0.0, l2=l2, balanced=False) for l2 in l2s]
        return plain + [
            Setting(gradient_weight=gradient, hessian_weight=hessian, l2=l2, balanced=True)
            for l2, gradient, hessian in product(l2s, *grids)
        ]

    def _units(
        self, targets: NDArray[np.int64], codes: NDArray[np.int64], groups: ArrayLike | None
    ) -> NDArray[np.int64]:
        """What scores are taken over: domains, or groups."""
        if self.selection != "worst_group":
            return codes
        if groups is not None:
            return encode_domains(groups, len(targets), name="groups")[1]
        pairs: NDArray[np.int64] = np.unique(codes * len(self.classes_) + targets, return_inverse=True)[1]
        return pairs

    def _splits(self, targets: NDArray[np.int64], codes: NDArray[np.int64], units: NDArray[np.int64]) -> Any:
        if self.selection == "leave_one_domain_out" and len(self.domains_) > 2:
            return domain_splits(codes)
        strata = (units * len(self.domains_) + codes) * len(self.classes_) + targets
        return fold_splits(strata, min(self.folds, len(targets)), check_random_state(self.random_state))

    def _fit_candidates(self, rows: "_Rows") -> list[LinearHead]:
        """Heads of all candidates on some of the rows; whether they converge is said of the last fit alone."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            paths = groupby(self.candidates_, key=lambda setting: (setting["l2"], setting["balanced"]))
            return [head for _, path in paths for head in self._fit_path(rows, list(path))]

    def _fit_path(self, rows: "_Rows", settings: list[Setting]) -> list[LinearHead]:
        """Heads of settings that differ in their weights only."""
        return fit_path(
            rows.features,
            rows.targets,
            rows.domains if settings[0]["balanced"] else None,
            [{1: setting["gradient_weight"], 2: setting["hessian_weight"]} for setting in settings],
            classes=len(self.classes_),
            sample_weight=rows.weights,
            l2=settings[0]["l2"],
            scaling=self.scaling,
            bias=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
        )


class _Rows(NamedTuple):
    """What `fit` was given, checked."""

    features: NDArray[np.floating]
    targets: NDArray[np.int64]
    domains: NDArray[np.int64] | None
    weights: NDArray[np.float64] | None

    def of(self, index: NDArray[np.intp]) -> "_Rows":
        """Some of the rows."""
        domains = None if self.domains is None else self.domains[index]
        weights = None if self.weights is None else self.weights[index]
        return _Rows(self.features[index], self.targets[index], domains, weights)


def _hits(head: LinearHead, features: NDArray[np.floating], targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a head is right, (n,)."""
    logits = features @ head.coef.T + head.intercept
    predicted = logits[:, 0] > 0 if logits.shape[1] == 1 else logits.argmax(1)
    right: NDArray[np.bool_] = predicted == targets
    return right
