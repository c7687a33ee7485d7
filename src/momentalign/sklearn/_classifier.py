"""A linear classifier whose derivatives agree across domains."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from momentalign._validation import SCALINGS, check_choice, check_count, check_weight
from momentalign.linear import LinearHead, fit_head, fit_sgd
from momentalign.penalties import MomentAlignment
from momentalign.sklearn._base import FitRows, LinearClassifier


class MomentAlignedClassifier(LinearClassifier):
    r"""Logistic regression whose gradients and Hessians agree across domains.

    Minimises the mean over domains of each domain's mean cross-entropy, plus half of `l2` times the squared norm of the
    coefficients (not of the intercept), plus the spread of the domains' gradients, Hessians and third derivatives with
    respect to the head, each weighted and scaled. The solver is L-BFGS on all rows in float64, started from the
    solution without penalties; it is deterministic.

    Without `domains`, or with a single domain (both with a warning), this is the plain L2-regularised model: the same
    as scikit-learn's `LogisticRegression(C=1/(l2 * n))`. `aligned_` is False then.

    No weight is right for all data: :class:`MomentAlignedClassifierCV` chooses. Large weights make heads too long and
    probabilities overconfident. Two classes have one logit, whose derivatives are measured as those of two, so that
    weights mean the same here and in :class:`momentalign.CMA`.

    Args:
        gradient_weight: Weight of the gradients' spread.
        hessian_weight: Weight of the Hessians' spread.
        third_weight: Weight of the third derivatives' spread; up to 16,384 rows.
        l2: Weight of half the squared norm of the coefficients; None is 1/n, that of `LogisticRegression()`.
        scaling: Divisor of a spread: `"relative"`, its largest possible value, makes it a number between 0 and 1 and
            its weight independent of the data's units; `"none"` 1, `"classes"` C^r, `"parameters"` (dC)².
        fit_intercept: Whether to fit an intercept; the derivatives then include its own.
        solver: `"lbfgs"`, or `"sgd"`, the published recipe: steps on batches in random order.
        tol: Largest entry of the gradient at the solution (L-BFGS).
        max_iter: Maximum number of iterations, of the fit without penalties and of the fit with them (L-BFGS).
        epochs: Passes over the rows (SGD).
        batch_size: Rows of a batch (SGD).
        learning_rate: Step size (SGD).
        anneal_steps: Steps before the penalties count (SGD).
        random_state: Seed of the batch order and of the initial head (SGD).
        verbose: 1 prints a summary.

    Attributes:
        classes_: The classes, shape (C,).
        coef_: Shape (C, d), (1, d) for two classes.
        intercept_: Shape (C,), (1,) for two classes.
        domains_: Labels of the training domains; empty without them.
        aligned_: Whether there were at least two domains to align.
        n_iter_: Iterations of the solver (epochs of SGD).
        n_features_in_: Number of features.
        feature_names_in_: Names of the columns, where `X` had them.

    Example:
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "no", "yes", "yes"]
        >>> MomentAlignedClassifier().fit(X, y, domains=["a", "b", "a", "b"]).predict([[5.0]])
        array(['yes'], dtype='<U3')
    """

    def __init__(
        self,
        gradient_weight: float = 1.0,
        hessian_weight: float = 0.0,
        *,
        third_weight: float = 0.0,
        l2: float | None = None,
        scaling: str = "relative",
        fit_intercept: bool = True,
        solver: str = "lbfgs",
        tol: float = 1e-4,
        max_iter: int = 1000,
        epochs: int = 50,
        batch_size: int = 500,
        learning_rate: float = 1e-3,
        anneal_steps: int = 0,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.gradient_weight = gradient_weight
        self.hessian_weight = hessian_weight
        self.third_weight = third_weight
        self.l2 = l2
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.anneal_steps = anneal_steps
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, rows: FitRows) -> None:
        names = {1: "gradient_weight", 2: "hessian_weight", 3: "third_weight"}
        head = self._head(rows, {order: getattr(self, name) for order, name in names.items()})
        self._store(head)
        if self.verbose:
            print(self._summary())

    def _head(self, rows: FitRows, weights: dict[int, float]) -> LinearHead:
        l2 = rows.unit_l2 if self.l2 is None else self.l2
        common: dict[str, Any] = {"classes": len(self.classes_), "l2": l2, "bias": self.fit_intercept}
        if self.solver == "lbfgs":
            return fit_head(
                rows.features,
                rows.targets,
                rows.domains,
                weights,
                sample_weight=rows.weights,
                scaling=self.scaling,
                tol=self.tol,
                max_iter=self.max_iter,
                **common,
            )
        if rows.weights is not None:
            raise ValueError(
                "solver 'sgd' does not support weighted rows, but 'sample_weight' was given. Use solver='lbfgs'."
            )
        head = fit_sgd(
            rows.features,
            rows.targets,
            rows.domains,
            penalty=self._penalty(weights),
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            **common,
        )
        if not head.converged:
            raise ValueError(
                f"The loss should stay finite, but stopped being a number at step {head.n_iter}. Use a smaller "
                f"learning_rate than {self.learning_rate:g} or smaller weights, or scale the features."
            )
        return replace(head, n_iter=self.epochs)

    def _penalty(self, weights: dict[int, float]) -> MomentAlignment | None:
        """The penalty of SGD; a batch that happens to contain one domain only should not warn."""
        positive = {order: weight for order, weight in weights.items() if weight}
        if not positive or not self.aligned_:
            return None
        return MomentAlignment(
            positive,
            anneal_steps=self.anneal_steps,
            bias=self.fit_intercept,
            scaling=self.scaling,
            validate=False,
        )

    def _check_parameters(self) -> None:
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("solver", self.solver, ("lbfgs", "sgd"))
        if self.l2 is not None:
            check_weight("l2", self.l2)
        for name in ("tol", "learning_rate", "gradient_weight", "hessian_weight", "third_weight"):
            check_weight(name, getattr(self, name))
        for name, least in {"max_iter": 1, "epochs": 1, "batch_size": 1, "anneal_steps": 0}.items():
            check_count(name, getattr(self, name), least)

    def _summary(self) -> str:
        if not self.aligned_:
            return f"{type(self).__name__}: no domains to align, this is the plain L2-regularised model."
        return f"{type(self).__name__}: aligned {len(self.domains_)} domains in {self.n_iter_} iterations."
