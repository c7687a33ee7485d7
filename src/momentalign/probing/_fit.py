"""Fit the heads of a method: the converged full-batch solver on a bootstrap, or SGD with an order of the batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from momentalign._seeds import seed_hash
from momentalign._types import Array, Integers
from momentalign.linear import (
    AlignmentObjective,
    GroupWeights,
    HeadCallback,
    LinearHead,
    Objective,
    SortedRows,
    balance_weights,
    fit_sgd,
    solve_group_dro,
    solve_path,
)
from momentalign.probing._features import ProbeFeatures
from momentalign.probing._group_methods import FitTask
from momentalign.probing._methods import LEARNING_RATE, Hparams, ProbeMethod
from momentalign.probing._probe_recipes import BATCH

L2 = 1e-3
TOL = 1e-5
MAX_ITER = 500
_DRAWS = 1000
"""Bootstraps to draw until one has rows of every group."""


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
        if method.fit is None and not method.is_group_dro:
            objective = method.objective(bootstrap_rows(features, seed, method), classes, l2)
            weights = [method.weights(hparams) for hparams in settings]
            tol = self._absolute_tol(objective)
            solutions = solve_path(objective, weights, tol=tol, max_iter=self.max_iter, watch=watch, tick=tick)
            return [LinearHead.of(solution, objective.shape, bias=False) for solution in solutions]
        if method.fit is None:
            rows = bootstrap_rows(features, seed, method)
            solution, _ = solve_group_dro(rows, classes, l2=l2, tol=self.tol, max_iter=self.max_iter, watch=watch)
            head = LinearHead.of(solution, (1 if classes == 2 else classes, rows.X.shape[1]), bias=False)
        else:
            counts, train = bootstrap_weights(features, seed_hash("bootstrap", seed)), features.train
            rows = SortedRows.sort(train.features, train.targets, None, counts, bias=False)
            tol = self._absolute_tol(AlignmentObjective(rows, classes, l2=0.0))
            head = method.fit(FitTask(features, counts, l2, tol, self.max_iter, seed_hash(method.name, seed)))
        if tick is not None:
            tick()
        return [head] * len(settings)  # nothing is tuned

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
        train, data = features.train, features.data
        domains = {"rows": None, "domains": train.domains, "groups": train.groups}[method.counts]
        number = len(data.group_names if method.counts == "groups" else data.domain_names)
        return fit_sgd(
            train.features,
            train.targets,
            domains,
            classes=len(data.classes),
            penalty=method.batch_penalty(hparams, number),
            reduce=GroupWeights(hparams["eta"], number) if method.is_group_dro else None,
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

    def _absolute_tol(self, objective: Objective) -> float:
        """Tolerance in units of the gradient at zero."""
        return self.tol * float(np.abs(objective(np.zeros(objective.shape).ravel())[1]).max())


def bootstrap_rows(features: ProbeFeatures, seed: int, method: ProbeMethod | None = None) -> SortedRows:
    """A bootstrap of the training rows, balanced by what a method balances, by default the domains.

    Rows of a method that counts groups are sorted by group, or by domain for a penalty across domains.
    """
    train = features.train
    weights = bootstrap_weights(features, seed_hash("bootstrap", seed))
    units: Integers | None = train.domains
    if method is not None and method.counts == "rows":
        units = None
    elif method is not None and method.counts == "groups":
        if method.penalty is None:
            units = train.groups
        else:
            weights = balance_weights(train.domains * len(features.data.group_names) + train.groups, weights)
    return SortedRows.sort(train.features, train.targets, units, weights, bias=False)


def bootstrap_weights(features: ProbeFeatures, seed: int) -> Array:
    """Count of each training row in a bootstrap, shape (n,).

    A draw that misses a domain, a class or a group is repeated.
    """
    train = features.train
    rng = np.random.default_rng(seed)
    n = len(train.targets)
    columns = (train.domains, train.targets, train.groups)
    for _ in range(_DRAWS):
        weights = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
        drawn = weights > 0
        if all(len(np.unique(codes[drawn])) == len(np.unique(codes)) for codes in columns):
            return weights
    sizes = np.bincount(train.groups, minlength=len(features.data.group_names))
    few = [f"'{name}' ({size})" for name, size in zip(features.data.group_names, sizes, strict=True) if 0 < size < 5]
    raise ValueError(
        f"A bootstrap of the training rows should have rows of every group, but {_DRAWS} draws had not: the smallest "
        f"groups are {', '.join(few)}. Merge them with others, or drop their rows."
    )
