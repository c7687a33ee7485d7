"""The two solvers behind one call: all settings of a method on one seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from momentalign._seeds import seed_hash
from momentalign.linear import LinearHead
from momentalign.probing._converged import bootstrap_weights, fit_converged
from momentalign.probing._features import ProbeFeatures
from momentalign.probing._methods import Hparams, ProbeMethod
from momentalign.probing._recipes import Recipe
from momentalign.probing._sgd import SgdSettings, fit_sgd

L2 = 1e-3
TOL = 1e-5
MAX_ITER = 500


@dataclass(frozen=True)
class Solver:
    """How heads are fitted, alike for all methods.

    Args:
        name: `"converged"` or `"sgd"`.
        recipe: Of the data set.
        l2: Weight of half the squared norm of the head, in units of the training features' mean square.
        tol: Largest entry of the gradient at a solution, relative to that at zero (converged).
        max_iter: Most iterations of a fit (converged).
    """

    name: str
    recipe: Recipe
    l2: float = L2
    tol: float = TOL
    max_iter: int = MAX_ITER

    def fit(
        self,
        features: ProbeFeatures,
        method: ProbeMethod,
        settings: Sequence[Hparams],
        seed: int,
        tick: Callable[[], None] | None = None,
    ) -> list[LinearHead]:
        """Fit a head for each setting; the converged solver on a bootstrap of the training rows.

        Args:
            features: The data.
            method: What to minimise.
            settings: Hyper-parameters.
            seed: Of the bootstrap, or of the order of the batches.
            tick: Called after each fit.

        Returns:
            The heads.
        """
        train, classes = features.train, len(features.data.classes)
        l2 = absolute_l2(features, self.l2)
        if self.name == "converged":
            return fit_converged(
                method,
                train,
                settings,
                classes=classes,
                l2=l2,
                tol=self.tol,
                max_iter=self.max_iter,
                row_weights=bootstrap_weights(train, seed_hash("bootstrap", seed)),
                tick=tick,
            )
        heads = []
        for hparams in settings:
            heads.append(
                fit_sgd(
                    method,
                    train,
                    hparams,
                    SgdSettings(self.recipe.epochs),
                    classes=classes,
                    domains=len(features.data.domain_names),
                    l2=l2,
                    seed=seed_hash("batches", seed),
                )
            )
            if tick is not None:
                tick()
        return heads


def absolute_l2(features: ProbeFeatures, l2: float) -> float:
    """L2 in the features' own units."""
    return l2 * float(np.square(features.train.features).mean())
