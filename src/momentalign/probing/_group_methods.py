"""Methods for worst groups that need several fits."""

from dataclasses import dataclass

import numpy as np

from momentalign._types import Array, Integers
from momentalign.linear import PUBLISHED_CS, PUBLISHED_REFITS, LinearHead, Scored, fit_dfr, fit_subsampled
from momentalign.probing._features import ProbeFeatures

DRAWS = 10
"""Subsamples whose heads are averaged."""

_DFR_ITERATIONS = 1000


@dataclass(frozen=True, eq=False)
class FitTask:
    """Input of a method's fit.

    Args:
        features: Projected rows of all splits.
        counts: Count of each training row in the bootstrap, shape (n,).
        l2: Weight of half the squared norm of the head.
        tol: Largest entry of the gradient at a solution.
        max_iter: Maximum number of iterations of a fit.
        seed: Of subsamples and halves.
    """

    features: ProbeFeatures
    counts: Array
    l2: float
    tol: float
    max_iter: int
    seed: int

    @property
    def drawn(self) -> Integers:
        """Indices of the bootstrap's rows, with repetitions."""
        return np.repeat(np.arange(len(self.counts)), self.counts.astype(np.int64))


def fit_subsampled_groups(task: FitTask) -> LinearHead:
    """Mean of the heads of group-balanced subsamples."""
    train, rows = task.features.train, task.drawn
    return fit_subsampled(
        train.features[rows],
        train.targets[rows],
        train.groups[rows],
        draws=DRAWS,
        random=np.random.RandomState(task.seed),
        l2=task.l2,
        classes=len(task.features.data.classes),
        bias=False,
        tol=task.tol,
        max_iter=task.max_iter,
    )


def refit_on_validation_rows(task: FitTask) -> LinearHead:
    """DFR. The seed is that of halves and subsamples: a bootstrap would put a row into both halves."""
    return _fit_dfr(task, np.arange(len(task.counts)), "validation")


def refit_on_training_rows(task: FitTask) -> LinearHead:
    """DFR's variant on the training rows, with C chosen by the validation rows."""
    return _fit_dfr(task, task.drawn, "training")


def _fit_dfr(task: FitTask, rows: Integers, refit_on: str) -> LinearHead:
    train, val = task.features.train, task.features.splits["val"]
    held_out = np.repeat([False, True], [len(rows), len(val.targets)])
    groups = np.concatenate([train.groups[rows], val.groups])
    return fit_dfr(
        np.concatenate([train.features[rows], val.features]),
        np.concatenate([train.targets[rows], val.targets]),
        groups,
        held_out=held_out,
        refit_on=refit_on,
        scored=Scored(np.flatnonzero(held_out), groups[held_out]),
        classes=len(task.features.data.classes),
        Cs=PUBLISHED_CS,
        refits=PUBLISHED_REFITS[refit_on],
        random=np.random.RandomState(task.seed),
        max_iter=_DFR_ITERATIONS,
    ).head
