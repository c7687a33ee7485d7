"""Fit the heads of a method: the converged full-batch solver on a bootstrap, or SGD with an order of the batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from momentalign._seeds import seed_hash
from momentalign._types import Array
from momentalign.linear import (
    PUBLISHED_CS,
    PUBLISHED_REFITS,
    AlignmentObjective,
    GroupWeights,
    HeadCallback,
    LinearHead,
    Objective,
    SortedRows,
    balance_weights,
    fit_dfr,
    fit_sgd,
    fit_subsampled,
    solve_group_dro,
    solve_path,
)
from momentalign.probing._features import ProbeFeatures
from momentalign.probing._methods import BATCH, LEARNING_RATE, Hparams, ProbeMethod

L2 = 1e-3
TOL = 1e-5
MAX_ITER = 500
DRAWS = 10
"""Subsamples whose heads are averaged."""
_DFR_ITERATIONS = 1000
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
        *,
        watch: HeadCallback | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> list[LinearHead]:
        """Fit a head for each setting of the hyper-parameters.

        The converged solver fits a bootstrap of the training rows, each setting from the nearest one before it. The
        seed of SGD is the order of the batches; its initial head is the same for all seeds. `watch` is called with the
        loss and the flattened head after each step, `tick` after each setting.
        """
        if self.name == "sgd":
            heads = []
            for hparams in settings:
                heads.append(self._fit_sgd(features, method, hparams, seed, watch))
                tick()
            return heads
        classes = len(features.data.classes)
        l2 = self._absolute_l2(features)  # its temporary copy is freed before the bootstrap copies the rows
        if not method.several and not method.is_group_dro:
            objective = method.objective(bootstrap_rows(features, seed, method), classes, l2)
            weights = [method.weights(hparams) for hparams in settings]
            tol = self._absolute_tol(objective)
            solutions = solve_path(objective, weights, tol=tol, max_iter=self.max_iter, watch=watch, tick=tick)
            return [LinearHead.of(solution, objective.shape, bias=False) for solution in solutions]
        if method.several:
            head = self._fit_several(features, method, seed, l2)
        else:
            rows = bootstrap_rows(features, seed, method)
            solution, _ = solve_group_dro(rows, classes, l2=l2, tol=self.tol, max_iter=self.max_iter, watch=watch)
            head = LinearHead.of(solution, (1 if classes == 2 else classes, rows.X.shape[1]), bias=False)
        tick()
        return [head] * len(settings)  # nothing is tuned

    def _fit_sgd(
        self, features: ProbeFeatures, method: ProbeMethod, hparams: Hparams, seed: int, watch: HeadCallback | None
    ) -> LinearHead:
        train, data = features.train, features.data
        number = len(data.group_names if method.counts == "groups" else data.domain_names)
        return fit_sgd(
            train.features,
            train.targets,
            train.units(method.counts),
            classes=len(data.classes),
            penalty=method.batch_penalty(hparams, number),
            reduce=GroupWeights(hparams["eta"], number) if method.is_group_dro else None,
            l2=self._absolute_l2(features),
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=seed_hash("batches", seed),
            head_seed=0,
            watch=None if watch is None else lambda step, loss, head: watch(loss, head),
        )

    def _fit_several(self, features: ProbeFeatures, method: ProbeMethod, seed: int, l2: float) -> LinearHead:
        """The mean of heads of group-balanced subsamples; or DFR on the validation rows, or on the training rows.

        DFR on the validation rows has no bootstrap, which would put a row into both halves: its seed is that of halves
        and subsamples. Its variant on the training rows chooses C by the validation rows.
        """
        train, val, classes = features.train, features.splits["val"], len(features.data.classes)
        counts = bootstrap_weights(features, seed_hash("bootstrap", seed))
        drawn = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
        random = np.random.RandomState(seed_hash(method.name, seed))
        if method.several == "subsampled":
            rows = SortedRows.sort(train.features, train.targets, None, counts, bias=False)
            return fit_subsampled(
                train.features[drawn],
                train.targets[drawn],
                train.groups[drawn],
                draws=DRAWS,
                random=random,
                l2=l2,
                classes=classes,
                bias=False,
                tol=self._absolute_tol(AlignmentObjective(rows, classes, l2=0.0)),
                max_iter=self.max_iter,
            )
        used = np.arange(len(counts)) if method.several == "validation" else drawn
        return fit_dfr(
            np.concatenate([train.features[used], val.features]),
            np.concatenate([train.targets[used], val.targets]),
            np.concatenate([train.groups[used], val.groups]),
            held_out=np.repeat([False, True], [len(used), len(val.targets)]),
            refit_on=method.several,
            classes=classes,
            Cs=PUBLISHED_CS,
            refits=PUBLISHED_REFITS[method.several],
            random=random,
            max_iter=_DFR_ITERATIONS,
        ).head

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
    train, counts = features.train, "domains" if method is None else method.counts
    weights = bootstrap_weights(features, seed_hash("bootstrap", seed))
    if counts == "groups" and method is not None and method.penalty is not None:
        weights = balance_weights(train.domains * len(features.data.group_names) + train.groups, weights)
        counts = "domains"
    return SortedRows.sort(train.features, train.targets, train.units(counts), weights, bias=False)


def bootstrap_weights(features: ProbeFeatures, seed: int) -> Array:
    """Count of each training row in a bootstrap, shape (n,).

    A draw that misses a domain, a class or a group is repeated.
    """
    train, rng = features.train, np.random.default_rng(seed)
    n = len(train.targets)
    for _ in range(_DRAWS):
        weights = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
        columns = (train.domains, train.targets, train.groups)
        if all(len(np.unique(codes[weights > 0])) == len(np.unique(codes)) for codes in columns):
            return weights
    names, sizes = features.data.group_names, np.bincount(train.groups)
    few = [f"'{name}' ({size})" for name, size in zip(names, sizes, strict=False) if 0 < size < 5]
    raise ValueError(
        f"A bootstrap of the training rows should have rows of every group, but {_DRAWS} draws had not: the smallest "
        f"groups are {', '.join(few)}. Merge them with others, or drop their rows."
    )
