"""Fit the heads of a method: the converged full-batch solver on a bootstrap, or SGD with an order of the batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from momentalign._seeds import seed_hash
from momentalign._types import Array
from momentalign.linear import (
    GroupWeights,
    HeadCallback,
    LinearHead,
    SortedRows,
    fit_sgd,
    solve_group_dro,
    solve_path,
)
from momentalign.probing._features import ProbeFeatures, ProbeSplit
from momentalign.probing._methods import BATCH, LEARNING_RATE, Hparams, ProbeMethod

L2 = 1e-3
TOL = 1e-5
MAX_ITER = 500


@dataclass(frozen=True)
class ProbeSolver:
    """How heads without bias are fitted, the same for all methods: `"converged"` or `"sgd"`.

    `l2` is in units of the training features' mean square. `tol`, the largest entry of the gradient relative to that at
    zero, and `max_iter` are the converged solver's; epochs, batch size and learning rate are those of SGD.
    """

    name: str
    l2: float = L2
    tol: float = TOL
    max_iter: int = MAX_ITER
    epochs: int = 50
    batch_size: int = BATCH
    learning_rate: float = LEARNING_RATE

    def fit(
        self,
        features: ProbeFeatures,
        method: ProbeMethod,
        settings: Sequence[Hparams],
        seed: int,
        tick: Callable[[], None] | None = None,
    ) -> list[LinearHead]:
        """Fit a head for each setting of the hyper-parameters; `tick` is called after each fit."""
        if self.name == "converged":
            return self.fit_converged(features, method, settings, seed, tick=tick)
        heads = []
        for hparams in settings:
            heads.append(self.fit_sgd(features, method, hparams, seed))
            if tick is not None:
                tick()
        return heads

    def fit_converged(
        self,
        features: ProbeFeatures,
        method: ProbeMethod,
        settings: Sequence[Hparams],
        seed: int,
        *,
        watch: HeadCallback | None = None,
        tick: Callable[[], None] | None = None,
    ) -> list[LinearHead]:
        """Fit a bootstrap of the training rows to convergence, each setting from the nearest one before it."""
        classes = len(features.data.classes)
        l2 = self._absolute_l2(features)  # its temporary copy is freed before the bootstrap copies the rows
        rows = bootstrap_rows(features.train, seed, pooled=method.pools_rows)
        if method.name == "groupdro":
            solution, _ = solve_group_dro(rows, classes, l2=l2, tol=self.tol, max_iter=self.max_iter, watch=watch)
            solutions = [solution] * len(settings)
            if tick is not None:
                tick()
        else:
            objective = method.objective(rows, classes, l2)
            tol = self.tol * float(np.abs(objective(np.zeros(objective.shape).ravel())[1]).max())
            weights = [method.weights(hparams) for hparams in settings]
            solutions = solve_path(objective, weights, tol=tol, max_iter=self.max_iter, watch=watch, tick=tick)
        shape = (1 if classes == 2 else classes, rows.X.shape[1])
        return [LinearHead.of(solution, shape, bias=False) for solution in solutions]

    def fit_sgd(
        self,
        features: ProbeFeatures,
        method: ProbeMethod,
        hparams: Hparams,
        seed: int,
        *,
        watch: Callable[[int, float, Array], None] | None = None,
    ) -> LinearHead:
        """Fit one head by SGD. The seed is the order of the batches; the initial head is the same for all seeds."""
        train, domains = features.train, len(features.data.domain_names)
        return fit_sgd(
            train.features,
            train.targets,
            None if method.pools_rows else train.domains,
            classes=len(features.data.classes),
            penalty=method.batch_penalty(hparams, domains),
            reduce=GroupWeights(hparams["eta"], domains) if method.name == "groupdro" else None,
            l2=self._absolute_l2(features),
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=seed_hash("batches", seed),
            head_seed=0,
            watch=watch,
        )

    def _absolute_l2(self, features: ProbeFeatures) -> float:
        """L2 in units of the features."""
        return self.l2 * float(np.square(features.train.features).mean())


def bootstrap_rows(train: ProbeSplit, seed: int, *, pooled: bool = False) -> SortedRows:
    """A bootstrap of the training rows, weighted by their counts; pooled rows are one domain."""
    weights = bootstrap_weights(train, seed_hash("bootstrap", seed))
    return SortedRows.sort(train.features, train.targets, None if pooled else train.domains, weights, bias=False)


def bootstrap_weights(train: ProbeSplit, seed: int) -> Array:
    """Count of each row in a bootstrap, shape (n,); a draw that misses a domain or a class is repeated."""
    rng = np.random.default_rng(seed)
    n = len(train.targets)
    while True:
        weights = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
        drawn = weights > 0
        if all(len(np.unique(codes[drawn])) == len(np.unique(codes)) for codes in (train.domains, train.targets)):
            return weights
