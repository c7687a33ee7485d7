"""Methods of the protocol: name, grid of hyper-parameters, penalty class."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from momentalign._format import pluralize
from momentalign._validation import check_choice
from momentalign.linear import (
    AlignmentObjective,
    BatchPenalty,
    Objective,
    PenaltyObjective,
    SortedRows,
)
from momentalign.penalties import (
    HGP,
    IRM,
    DomainPenalty,
    Fishr,
    Hutchinson,
    MomentAlignment,
    VREx,
)
from momentalign.probing._data import ProbeData

Hparams = Mapping[str, float]
SOLVERS = ("converged", "sgd")

PUBLISHED_SCALING = "parameters"
"""Units of the published weights of moment alignment: each spread divided by (dC)²."""

_ORDERS = {"gradient_weight": 1, "hessian_weight": 2}

LEARNING_RATE = 1e-3
BATCH = 500
"""Rows of a batch of SGD."""


@dataclass(frozen=True)
class ProbeMethod:
    """A method of the protocol.

    Args:
        name: As people type it.
        label: As tables print it.
        grid: Values of each hyper-parameter.
        penalty: Makes the penalty from hyper-parameters and the options that all penalties take; None for no penalty.
        scaling: Units of the weights, for moment alignment.
        note: Printed beside the numbers.
        limit: The same by the converged solver, for which the grid makes no difference.
        same_as: Method whose fit this one is.
        counts: What the loss weights equally: `"rows"`, `"domains"`, or `"groups"`, in each domain where there is a
            penalty.
        several: For methods of several heads, `"subsampled"`, or the rows that DFR is refitted on.
        solvers: Solvers that can fit it.
        least: Fewest rows of every group, by split.
    """

    name: str
    label: str
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    penalty: Callable[..., DomainPenalty] | None = None
    scaling: str = PUBLISHED_SCALING
    note: str = ""
    limit: str = ""
    same_as: str | None = None
    counts: str = "domains"
    several: str = ""
    solvers: tuple[str, ...] = SOLVERS
    least: Mapping[str, int] = field(default_factory=dict)

    def notes(self, solver: str) -> str:
        """What is printed beside the numbers of a solver."""
        return self.limit if self.limit and solver == "converged" else self.note

    @property
    def is_group_dro(self) -> bool:
        """Whether domains or groups are weighted by their losses."""
        return "eta" in self.grid

    def check_groups(self, data: ProbeData) -> None:
        """Raise ValueError for a group with fewer rows in a split than the method needs."""
        for split, least in self.least.items():
            sizes = data.count_groups(split)
            name = min(data.group_names, key=lambda name: sizes.get(name, 0))
            if sizes.get(name, 0) < least:
                raise ValueError(
                    f"Method '{self.name}' needs {pluralize(least, 'row')} or more of every group in '{split}', but "
                    f"'{name}' of {data.name} has {sizes.get(name, 0)}. Merge it with another, or move rows to it."
                )

    def make_penalty(self, hparams: Hparams, **options: Any) -> DomainPenalty | None:
        """Make the penalty of a head without bias, if there is one."""
        return self.penalty and self.penalty(**{name: hparams[name] for name in self.grid}, validate=False, **options)

    def batch_penalty(self, hparams: Hparams, num_domains: int) -> BatchPenalty | None:
        """The penalty that SGD adds to the loss of a batch, by the cheapest route."""
        return self.make_penalty(hparams, anneal_steps=int(hparams.get("anneal_steps", 0)), num_domains=num_domains)

    def weights(self, hparams: Hparams) -> dict[str, float]:
        """Weights of the terms for the converged solver."""
        penalty = self.make_penalty(hparams)
        if isinstance(penalty, Fishr):
            # With all rows in every step the average over steps converges to v/(1 − γ), of which v alone has a
            # gradient: the method ends where the plain penalty with weight λ/(1 − γ) does.
            return {name: weight / (1.0 - penalty.momentum) for name, weight in penalty.weights.items()}
        return {} if penalty is None else penalty.weights

    def objective(self, rows: SortedRows, classes: int, l2: float) -> Objective:
        """Objective of the converged solver, without weights."""
        penalty = self.make_penalty({name: values[0] for name, values in self.grid.items()})
        if penalty is None or isinstance(penalty, MomentAlignment):
            return AlignmentObjective(rows, classes, l2=l2, scaling=self.scaling)
        return PenaltyObjective(rows, classes, penalty, l2=l2)


def _alignment(
    name: str, label: str, grid: Mapping[str, tuple[float, ...]], scaling: str = PUBLISHED_SCALING, note: str = ""
) -> ProbeMethod:
    """Moment alignment of some orders, by default in the units of the published weights."""

    def penalty(**options: Any) -> DomainPenalty:
        weights = {_ORDERS[key]: options.pop(key) for key in grid}
        # Few features for the rows of a batch.
        return MomentAlignment(weights, scaling=scaling, bias=False, route="direct", **options)

    return ProbeMethod(name, label, grid, penalty, scaling, note=note)


_FEW = {"weight": (1.0, 10.0, 100.0, 1e3, 1e4)}
_RELATIVE = (0.1, 1.0, 10.0, 100.0, 1e3)
_SECOND_ORDER = {"gradient_weight": _RELATIVE, "hessian_weight": tuple(10.0**k for k in range(-3, 6))}
_ETA = {"eta": (1e-3, 1e-2, 1e-1)}
ALIGNMENT_GRID = (1.0, 10.0, 100.0, 1000.0, 2000.0, 5000.0, 10000.0)

METHODS: dict[str, ProbeMethod] = {
    method.name: method
    for method in (
        ProbeMethod("erm", "ERM", note="rows weighted equally", counts="rows"),
        ProbeMethod("erm-balanced", "ERM, balanced", note="domains weighted equally, as below"),
        ProbeMethod(
            "coral",
            "CORAL",
            note="no effect on fixed features: the fit of balanced ERM, nothing tuned",
            same_as="erm-balanced",
        ),
        ProbeMethod(
            "fishr",
            "Fishr",
            {"weight": (10.0, 100.0, 1e3, 1e4), "momentum": (0.9, 0.9225, 0.945, 0.9675, 0.99)},
            partial(Fishr, bias=False),
        ),
        ProbeMethod("hgp", "HGP", _SECOND_ORDER, partial(HGP, bias=False)),
        ProbeMethod(
            "hgp-product",
            "HGP, product",
            _SECOND_ORDER,
            partial(HGP, bias=False, center="product"),
            note="compared with the mean Hessian times the mean gradient, detached",
            solvers=("sgd",),  # a detached centre has no objective that could be minimised
        ),
        ProbeMethod("hutchinson", "Hutchinson", _SECOND_ORDER, partial(Hutchinson, bias=False)),
        ProbeMethod("irm", "IRM", _FEW, partial(IRM, bias=False)),
        ProbeMethod("vrex", "VREx", _FEW, VREx),
        ProbeMethod(
            "groupdro",
            "GroupDRO",
            _ETA,
            limit="least loss of the worst domain, the limit for every η",
        ),
        _alignment("gradient-matching", "Gradient matching", {"gradient_weight": ALIGNMENT_GRID}),
        _alignment("hessian-matching", "Hessian matching", {"hessian_weight": ALIGNMENT_GRID}),
        _alignment("cma", "CMA", {"gradient_weight": ALIGNMENT_GRID, "hessian_weight": ALIGNMENT_GRID}),
        _alignment(
            "cma-relative",
            "CMA, relative",
            {"gradient_weight": _RELATIVE, "hessian_weight": _RELATIVE},
            scaling="relative",
            note="relative weights",
        ),
        ProbeMethod(
            "balanced",
            "Groups balanced",
            note="groups weighted equally",
            counts="groups",
        ),
        ProbeMethod(
            "subsampled",
            "Groups subsampled",
            note="mean of 10 subsamples with as many rows of every group",
            several="subsampled",
            counts="groups",
            solvers=("converged",),
            least={"train": 2},
        ),
        ProbeMethod(
            "groupdro-groups",
            "GroupDRO, groups",
            _ETA,
            limit="least loss of the worst group, the limit for every η",
            counts="groups",
        ),
        ProbeMethod(
            "dfr",
            "DFR",
            note="refitted on the validation rows, which then flatter it; with an intercept",
            several="validation",
            counts="groups",
            solvers=("converged",),
            least={"val": 2},
        ),
        ProbeMethod(
            "dfr-train",
            "DFR, training rows",
            note="C by the validation rows; with an intercept",
            several="training",
            counts="groups",
            solvers=("converged",),
            least={"train": 2, "val": 1},
        ),
        replace(
            _alignment(
                "cma-balanced",
                "CMA, groups balanced",
                {"gradient_weight": (0.0, *_RELATIVE), "hessian_weight": (0.0, *_RELATIVE)},
                scaling="relative",
                note="relative weights; groups weighted equally in each domain",
            ),
            counts="groups",
            solvers=("converged",),
        ),
    )
}

GROUP_METHODS = tuple(name for name, method in METHODS.items() if method.counts == "groups")
"""Methods that weigh groups rather than domains."""

PROTOCOL_METHODS = tuple(
    name for name in METHODS if name not in ("hgp-product", "gradient-matching", "hessian-matching")
)
"""Methods that :func:`run_protocol` compares by default, where the solver has them."""


def find_method(name: str) -> ProbeMethod:
    """Look up a method; the error for an unknown name suggests the nearest one."""
    return METHODS[check_choice("method", name, METHODS)]
