"""A linear classifier whose derivatives agree across domains."""

from dataclasses import KW_ONLY, dataclass

from momentalign.sklearn._base import AlignedModel, LogitClassifier


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
