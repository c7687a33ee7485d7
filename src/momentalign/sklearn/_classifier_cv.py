"""A classifier that chooses its weights inside the training domains."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax

from momentalign._types import Array
from momentalign._validation import check_choice, check_weight
from momentalign.linear import LinearHead, fit_path, rescale
from momentalign.sklearn._base import FitRows, LinearClassifier
from momentalign.sklearn._search import Setting, WeightSearch


class MomentAlignedClassifierCV(LinearClassifier, WeightSearch):
    r""":class:`MomentAlignedClassifier` with weights chosen inside the training domains, the plain model among them.

    With `selection="leave_one_domain_out"` every training domain is left out in turn, the candidates are fitted on the
    others and scored on that one by the log of the probability of the true class. Two steps:

    1. Plain logistic regressions, in which all rows count alike: the L2 with the largest mean score.
    2. At that L2 each weight of one order alone, in losses in which all domains count alike, and no weight. A setting
       is taken only if it scores at least as high as the plain model on *every* domain left out; of those, the largest
       mean score.

    So where alignment does not pay on every training domain, this is logistic regression with L2 chosen across domains.

    Aligned heads are too long for the loss, and their probabilities overconfident. They are multiplied by the number
    that minimises the loss with L2 on the rows they were fitted on; predicted classes do not change.

    With two domains, leaving one out leaves one, in which there is nothing to align. They still choose L2, each in turn
    against the other. The weights are scored on held-out folds of both domains, by the worse of the two.
    `selection="worst_group"` scores all candidates on held-out folds, by the accuracy of the worst group. In both cases
    a gain over the plain model counts only if it exceeds its standard error.

    Without `domains` nothing can be chosen: the plain model with the first of `l2s`.

    Args:
        gradient_weights: Candidates for the weight of the gradients' spread; 0 is added.
        hessian_weights: Candidates for the weight of the Hessians' spread; 0 is added.
        l2s: Candidates for the weight of half the squared norm of the coefficients.
        selection: `"leave_one_domain_out"` or `"worst_group"`.
        scoring: `"neg_log_loss"` or `"accuracy"`; None is the first for domains left out, the second for groups.
        rule: `"cautious"`, as above; or `"best"`: the largest score, whatever is lost elsewhere and however uncertain.
        combine: Whether to try every pair of weights as well.
        folds: Number of folds where folds are used.
        scaling: `"relative"`, `"none"`, `"classes"` or `"parameters"`.
        fit_intercept: Whether to fit an intercept.
        tol: Largest entry of the gradient at the solution; ten times as much for the fits that are only compared.
        max_iter: Maximum number of iterations of a fit.
        random_state: Seed of the folds.
        callback: Called after each split of the search with the number of finished splits and the total.

    Attributes:
        gradient_weight_: Chosen weight of the gradients' spread.
        hessian_weight_: Chosen weight of the Hessians' spread.
        l2_: Chosen L2.
        balanced_: Whether domains count alike in the loss of the chosen setting; if not, rows do.
        scale_: Factor of the chosen head; 1 where nothing is aligned.
        candidates_: The settings, a dictionary each: plain models with every L2, then the weights at the chosen one.
        scores_: Score of each candidate, shape (m,); NaN where nothing could be scored.
        standard_errors_: Of the gain over the plain model with the chosen L2, shape (m,).
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
        >>> clf = MomentAlignedClassifierCV((0, 10), (0, 10), (1e-3, 1e-2)).fit(X, y, domains=site)
        >>> clf.candidates_[0]
        {'gradient_weight': 0.0, 'hessian_weight': 0.0, 'l2': 0.001, 'balanced': False}
        >>> len(clf.candidates_), clf.scores_.shape
        (5, (5,))
    """

    def __init__(
        self,
        gradient_weights: Sequence[float] = (0.0, 1.0, 10.0),
        hessian_weights: Sequence[float] = (0.0, 1.0, 10.0),
        l2s: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
        *,
        selection: str = "leave_one_domain_out",
        scoring: str | None = None,
        rule: str = "cautious",
        combine: bool = False,
        folds: int = 5,
        scaling: str = "relative",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
        callback: Callable[[int, int], None] | None = None,
    ) -> None:
        self.gradient_weights = gradient_weights
        self.hessian_weights = hessian_weights
        self.l2s = l2s
        self.selection = selection
        self.scoring = scoring
        self.rule = rule
        self.combine = combine
        self.folds = folds
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.callback = callback

    def fit(  # type: ignore[override]  # 'groups' besides
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
            domains: Domain of each row: strings or integers, shape (n,). None chooses and aligns nothing.
            groups: Groups whose worst decides with `selection="worst_group"`, shape (n,); by default the pairs of
                domain and class that occur.
            sample_weight: Weight of each row within its domain, shape (n,); scores count rows alike.

        Returns:
            The fitted estimator.
        """
        self._check_parameters()
        self._fit(self._validate(X, y, domains, sample_weight), groups)
        return self

    def _fit(self, rows: FitRows, groups: ArrayLike | None = None) -> None:
        chosen = self._search(rows, groups)
        self.hessian_weight_ = chosen["hessian_weight"]
        (fitted,) = self._path(rows, [chosen], self.tol)
        head, self.scale_ = self._rescale(fitted, rows, chosen)
        self._store(head)

    def _check_parameters(self) -> None:
        check_choice("selection", self.selection, ("leave_one_domain_out", "worst_group"))
        if self.scoring is not None:
            check_choice("scoring", self.scoring, ("neg_log_loss", "accuracy"))
        super()._check_parameters()

    def _weights(self) -> list[tuple[float, float]]:
        gradient, hessian = (
            sorted({0.0, *(check_weight(name, weight) for weight in getattr(self, name))})
            for name in ("gradient_weights", "hessian_weights")
        )
        pairs = product(gradient, hessian)
        return [pair for pair in pairs if self.combine or 0.0 in pair]

    def _strata(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        return targets

    def _calibrate(self, head: LinearHead, rows: FitRows, setting: Setting) -> LinearHead:
        return self._rescale(head, rows, setting)[0]

    def _rescale(self, head: LinearHead, rows: FitRows, setting: Setting) -> tuple[LinearHead, float]:
        if setting["gradient_weight"] + setting["hessian_weight"] == 0:
            return head, 1.0
        return rescale(head, rows.features, rows.targets, rows.domains, sample_weight=rows.weights, l2=setting["l2"])

    def _path(self, rows: FitRows, settings: list[Setting], tol: float) -> list[LinearHead]:
        return fit_path(
            rows.features,
            rows.targets,
            rows.domains if settings[0]["balanced"] else None,
            [{1: setting["gradient_weight"], 2: setting["hessian_weight"]} for setting in settings],
            classes=len(self.classes_),
            sample_weight=rows.weights,
            l2=[setting["l2"] for setting in settings],
            scaling=self.scaling,
            bias=self.fit_intercept,
            tol=tol,
            max_iter=self.max_iter,
        )

    def _scores(self, head: LinearHead, rows: FitRows) -> Array:
        logits, targets = head.logits(rows.features), rows.targets
        default = "accuracy" if self.selection == "worst_group" else "neg_log_loss"
        if (self.scoring or default) == "accuracy":
            hits: Array = (logits.argmax(1) == targets).astype(np.float64)
            return hits
        likelihoods: Array = log_softmax(logits, axis=1)[np.arange(len(targets)), targets]
        return likelihoods
