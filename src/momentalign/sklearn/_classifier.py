"""Linear classifiers whose derivatives agree across domains, with given and with chosen weights."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from momentalign._validation import check_weight
from momentalign.linear import LinearHead, rescale
from momentalign.sklearn._base import AlignedModel, FitRows, LogitClassifier
from momentalign.sklearn._rule import Scorer
from momentalign.sklearn._search import Setting, WeightSearch


@dataclass(eq=False, repr=False)
class MomentAlignedClassifier(LogitClassifier, AlignedModel):
    r"""Logistic regression whose gradients and Hessians agree across domains.

    Minimises the mean over domains of each domain's mean cross-entropy, plus half of `l2` times the squared norm of the
    coefficients (not of the intercept), plus the spread of the domains' gradients and Hessians with respect to the
    head, each weighted and scaled. The solver is L-BFGS on all rows in float64, started from the solution without
    penalties; it is deterministic.

    Without `domains`, or with a single domain (both with a warning), this is the plain L2-regularised model: the same
    as scikit-learn's `LogisticRegression(C=1/(l2 * n))`. `aligned_` is False then.

    No weight is right for all data: :class:`MomentAlignedClassifierCV` chooses. Large weights make heads too long and
    probabilities overconfident. Two classes have one logit, whose derivatives are measured as those of two, so that
    weights mean the same here and in :class:`momentalign.CMA`.

    Args:
        gradient_weight: Weight of the gradients' spread.
        hessian_weight: Weight of the Hessians' spread.
        l2: Weight of half the squared norm of the coefficients; None is 1/n, that of `LogisticRegression()`.
        scaling: Divisor of a spread: `"relative"`, its largest possible value, makes it a number between 0 and 1 and
            its weight independent of the data's units; `"none"` 1, `"classes"` C^r, `"parameters"` (dC)².
        fit_intercept: Whether to fit an intercept; the derivatives then include its own.
        tol: Largest entry of the gradient at the solution.
        max_iter: Maximum number of iterations, of the fit without penalties and of the fit with them.

    Attributes:
        classes_: The classes, shape (C,).
        coef_: Shape (C, d), (1, d) for two classes.
        intercept_: Shape (C,), (1,) for two classes.
        domains_: Labels of the training domains; empty without them.
        aligned_: Whether there were at least two domains to align.
        n_iter_: Iterations of the solver.
        n_features_in_: Number of features.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]
        >>> MomentAlignedClassifier().fit(X, y, domains=["a", "b", "a", "b"]).predict([[5.0]])
        array(['yes'], dtype='<U3')
    """

    gradient_weight: float = 1.0
    hessian_weight: float = 0.0
    _: KW_ONLY
    l2: float | None = None
    scaling: str = "relative"
    fit_intercept: bool = True
    tol: float = 1e-4
    max_iter: int = 1000


@dataclass(eq=False, repr=False)
class MomentAlignedClassifierCV(LogitClassifier, WeightSearch):
    r"""Logistic regression that leaves scikit-learn's defaults only where left-out domains give evidence for it.

    The incumbent is `LogisticRegression()` as scikit-learn ships it: L2 = 1/n (C = 1), rows weighted equally. Each
    training domain is left out in turn (with more than ten domains each of ten folds of them), candidates are fitted on
    the others and scored on those left out. Two steps are possible:

    1. to another L2, of plain models;
    2. at that L2, to a loss that weights all domains equally, alone or with a weight of one order.

    A step is taken only if its mean gain is a tenth of a point at least and exceeds one standard error over the folds,
    and no fold loses more than a point; of those, the largest gain. `reason_` says what was chosen and why. A point
    is 0.01 of a score; gains in losses such as `"neg_log_loss"` are relative to the incumbent's loss on the fold,
    and a point is 1% of it.

    Two domains are not enough: leaving one out leaves one, which cannot show how models of several domains transfer.
    With two domains, one, or none (with a warning), this is the incumbent.

    Aligned heads are too long for the loss, and their probabilities overconfident. They are multiplied by the number
    that minimises the loss with L2 on the rows they were fitted on; predicted classes do not change.

    Args:
        gradient_weights: Candidates for the weight of the gradients' spread; 0 is always tried.
        hessian_weights: Candidates for the weight of the Hessians' spread; 0 is always tried.
        l2_factors: Candidates for L2, times 1/n, that is 1/C; 1 is always tried.
        scoring: Name of a scikit-learn score, or a scorer. None is `"balanced_accuracy"`, which a shift of the class
            frequencies does not change.
        rule: `"cautious"`, as above; or `"best"`: the largest score, whatever is lost elsewhere and however uncertain.
        folds: Largest number of folds of domains; None is 10.
        scaling: `"relative"`, `"none"`, `"classes"` or `"parameters"`.
        fit_intercept: Whether to fit an intercept.
        tol: Largest entry of the gradient at the solution; ten times as much for aligned fits that are only compared.
        max_iter: Maximum number of iterations of a fit.
        n_jobs: Folds that are fitted at the same time, as in scikit-learn; the result does not depend on it.
        callback: Called after each split of the search with the number of finished splits and the total.

    Attributes:
        reason_: What was chosen and why, a sentence.
        gradient_weight_: Chosen weight of the gradients' spread.
        hessian_weight_: Chosen weight of the Hessians' spread.
        l2_: Chosen L2, the weight of half the squared norm of the coefficients.
        l2_factor_: Chosen L2 times n.
        balanced_: Whether the loss of the chosen setting weights domains equally; if not, rows.
        scale_: Factor of the chosen head; 1 where nothing is aligned.
        candidates_: The settings, a dictionary each: the incumbent, the other L2s, then weights at the chosen one.
        scores_: Mean score of each candidate, shape (m,); NaN where it was dropped before its last fold.
        standard_errors_: Of the gain over the incumbent, or over the chosen plain model, shape (m,).
        outcomes_: What became of each candidate, m short texts.
        fold_scores_: Score of each candidate on each left-out fold, shape (m, F).
        folds_: Domains of each left-out fold.
        classes_: The classes, shape (C,).
        coef_: Shape (C, d), (1, d) for two classes; of the fit on all rows.
        intercept_: Shape (C,), (1,) for two classes.
        domains_: Labels of the training domains; empty without them.
        aligned_: Whether a weight other than 0 was chosen.
        n_iter_: Iterations of the fit on all rows.
        n_features_in_: Number of features.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X, y, site = rng.normal(size=(90, 2)), np.arange(90) % 2, np.repeat(["a", "b", "c"], 30)
        >>> X[:, 0] += y
        >>> clf = MomentAlignedClassifierCV((10,), (10,), (0.1,)).fit(X, y, domains=site)
        >>> clf.candidates_[0]
        {'gradient_weight': 0.0, 'hessian_weight': 0.0, 'l2_factor': 1.0, 'balanced': False}
        >>> len(clf.candidates_), clf.scores_.shape, clf.fold_scores_.shape
        (5, (5,), (5, 3))
    """

    gradient_weights: Sequence[float] = (1.0,)
    hessian_weights: Sequence[float] = ()
    l2_factors: Sequence[float] = (0.01, 0.1, 10.0, 100.0)
    _: KW_ONLY
    scoring: str | Scorer | None = None
    rule: str = "cautious"
    folds: int | None = None
    scaling: str = "relative"
    fit_intercept: bool = True
    tol: float = 1e-5
    max_iter: int = 1000
    n_jobs: int | None = None
    callback: Callable[[int, int], None] | None = None

    incumbent = "LogisticRegression"
    default_scoring = "balanced_accuracy"

    def _weights(self) -> list[tuple[float, float]]:
        gradient, hessian = (
            sorted({0.0, *(check_weight(name, weight) for weight in getattr(self, name))})
            for name in ("gradient_weights", "hessian_weights")
        )
        return [*((weight, 0.0) for weight in gradient), *((0.0, weight) for weight in hessian if weight)]

    def _calibrate(self, head: LinearHead, rows: FitRows, setting: Setting) -> tuple[LinearHead, float]:
        if setting["gradient_weight"] + setting["hessian_weight"] == 0:
            return head, 1.0
        l2 = setting["l2_factor"] * rows.unit_l2
        return rescale(head, rows.features, rows.targets, rows.domains, sample_weight=rows.weights, l2=l2)
