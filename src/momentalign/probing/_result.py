"""Results of the protocol: each method's selected hyper-parameters, accuracies and standard errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentalign._extras import require
from momentalign._format import align_columns
from momentalign.linear import LinearHead
from momentalign.probing._features import ProbeScores

Published = Mapping[str, tuple[float, float]]
"""Published average and worst-group accuracy in percent, by method."""

_MEASURES = ("weighted_accuracy", "balanced_accuracy", "worst_group_f1", "auroc", "calibration_error")
"""Measures of a result beside average and worst group, as records name them."""
_CHOSEN_BY = {
    "worst-group": "worst-group validation accuracy",
    "worst-class": "worst-class validation accuracy, without attributes",
    "train-groups": "worst-group training accuracy, with the attributes of training rows only",
}


@dataclass(frozen=True, eq=False)
class ProbeFit:
    """One fitted head: its hyper-parameters and accuracies.

    `hparams_seed` is the index in the method's grid, `seed` the bootstrap of the training rows (converged) or the order
    of the batches (SGD). SGD has converged if its loss stayed finite.
    """

    method: str
    hparams: Mapping[str, float]
    hparams_seed: int
    seed: int
    train: ProbeScores
    val: ProbeScores
    test: ProbeScores
    head: LinearHead

    @property
    def converged(self) -> bool:
        """Whether the solver converged."""
        return self.head.converged

    def validation(self, rule: str) -> float:
        """Accuracy that a selection rule ranks by."""
        from momentalign.selection import GROUP_RULES  # imports pandas

        metric, split = GROUP_RULES[rule]
        scores: ProbeScores = getattr(self, split)
        return scores.worst if metric == "worst_group_accuracy" else scores.worst_class


@dataclass(frozen=True, eq=False)
class MethodResult:
    """The selected hyper-parameters of a method: their fits, one per seed, among `sets` of the grid.

    `measures` are those of :func:`momentalign.sklearn.group_report` on the test rows, for each fit.
    """

    method: str
    label: str
    fits: tuple[ProbeFit, ...]
    sets: int
    note: str = ""
    measures: tuple[Mapping[str, float], ...] = ()

    @property
    def hparams(self) -> Mapping[str, float]:
        """The selected hyper-parameters."""
        return self.fits[0].hparams

    def mean(self, split: str, score: str) -> float:
        """Mean over seeds of `"average"` or `"worst"` on `"val"` or `"test"`, 0 … 1."""
        return float(np.mean([getattr(getattr(fit, split), score) for fit in self.fits]))

    def error(self, split: str, score: str) -> float:
        """Standard error of that mean, ddof 1; NaN for one seed."""
        return _mean_and_error([getattr(getattr(fit, split), score) for fit in self.fits])[1]


@dataclass(frozen=True, eq=False)
class ProtocolResult:
    """The table of the protocol, one row per method, and all fits of the grids; sets were selected by `rule`."""

    name: str
    solver: str
    isr_class: str | None
    methods: tuple[MethodResult, ...]
    fits: tuple[ProbeFit, ...]
    notes: tuple[str, ...] = ()
    published: Published = field(default_factory=dict)
    rule: str = "worst-group"

    def __getitem__(self, method: str) -> MethodResult:
        for row in self.methods:
            if row.method == method:
                return row
        raise KeyError(
            f"There is no method {method!r} in this result: {', '.join(row.method for row in self.methods)}."
        )

    def to_frame(self) -> Any:
        """A data frame with a row per method; accuracies are in 0 … 1, published ones in percent."""
        rows = []
        for row in self.methods:
            published = self.published.get(row.method, (math.nan, math.nan))
            rows.append(
                {
                    "method": row.method,
                    "average": row.mean("test", "average"),
                    "average_se": row.error("test", "average"),
                    "worst_group": row.mean("test", "worst"),
                    "worst_group_se": row.error("test", "worst"),
                    **{name: _mean([one[name] for one in row.measures if name in one]) for name in _MEASURES},
                    "validation": _mean([fit.validation(self.rule) for fit in row.fits]),
                    "seeds": len(row.fits),
                    "sets": row.sets,
                    "hparams": dict(row.hparams),
                    "published_average": published[0],
                    "published_worst_group": published[1],
                    "note": row.note,
                }
            )
        return require("pandas", "Frames need", extra="cli").DataFrame(rows).set_index("method")

    def grid_frame(self) -> Any:
        """A data frame of all fits, with a column per hyper-parameter."""
        return require("pandas", "Frames need", extra="cli").DataFrame(
            [
                {
                    "method": fit.method,
                    "hparams_seed": fit.hparams_seed,
                    "seed": fit.seed,
                    **fit.hparams,
                    "val_worst": fit.val.worst,
                    "val_worst_class": fit.val.worst_class,
                    "val_average": fit.val.average,
                    "train_worst": fit.train.worst,
                    "test_worst": fit.test.worst,
                    "test_average": fit.test.average,
                    "converged": fit.converged,
                }
                for fit in self.fits
            ]
        )

    def __str__(self) -> str:
        shown = bool(self.published)
        lines = [["", "average", "worst group", "validation", *(["published"] if shown else []), "set"]]
        for row in self.methods:
            published = self.published.get(row.method)
            beside = "" if published is None else f"{published[0]:.2f} / {published[1]:.2f}"
            about = ", ".join(f"{name} {value:g}" for name, value in row.hparams.items())
            lines.append(
                [
                    row.label,
                    _percent(row.mean("test", "average"), row.error("test", "average")),
                    _percent(row.mean("test", "worst"), row.error("test", "worst")),
                    _percent(*_mean_and_error([fit.validation(self.rule) for fit in row.fits])),
                    *([beside] if shown else []),
                    "; ".join(part for part in (about, row.note) if part),
                ]
            )
        isr = "no ISR" if self.isr_class is None else f"ISR by class '{self.isr_class}'"
        title = f"{self.name}: test accuracy in %, {self.solver} solver, {isr}; chosen by {_CHOSEN_BY[self.rule]}."
        return "\n".join([title, *align_columns(lines), *self.notes])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error, ddof 1; NaN for one value."""
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return float(np.mean(values)), error


def _percent(mean: float, error: float) -> str:
    return f"{100 * mean:.2f}" + ("" if math.isnan(error) else f" ± {100 * error:.2f}")
