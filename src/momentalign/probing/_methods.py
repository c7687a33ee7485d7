"""The methods of the probing protocol by name: their grids, and how each of the two solvers takes them."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from momentalign._validation import check_choice
from momentalign.linear import Rows
from momentalign.penalties import DomainPenalty, Fishr, MomentAlignment
from momentalign.probing import _terms as terms
from momentalign.probing._objectives import SCALING, AlignmentObjective, Objective, TermObjective
from momentalign.probing._recipes import Recipe
from momentalign.probing._terms import Terms

Hparams = Mapping[str, float]
SOLVERS = ("converged", "sgd")

_TENS = tuple(10.0**k for k in range(-3, 6))
_RELATIVE = (0.1, 1.0, 10.0, 100.0, 1e3)
_ALIGNMENT = (1.0, 10.0, 100.0, 1000.0, 2000.0, 5000.0, 10000.0)


@dataclass(frozen=True)
class ProbeMethod:
    """A method of the protocol.

    Args:
        name: As people type it.
        label: As tables print it.
        grid: Values of each hyper-parameter.
        weights: Weights of the terms from hyper-parameters.
        terms: Its penalty from the domains' own sums; None for moment alignment, and where there is no penalty.
        penalty: Makes the penalty that SGD adds where it is more than its terms, from hyper-parameters, annealing steps
            and number of domains.
        scaling: Units of the weights, where moment alignment is the penalty.
        initial_weight: Weight of the terms before annealing is over.
        tuned: Solvers for which the grid makes a difference.
        note: What to say of the method beside its numbers, by solver.
        same_as: Method whose fit this one is.
    """

    name: str
    label: str
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    weights: Callable[[Hparams], dict[str, float]] = lambda _: {}
    terms: Terms | None = None
    penalty: Callable[[Hparams, int, int], DomainPenalty] | None = None
    scaling: str = SCALING
    initial_weight: float = 0.0
    tuned: tuple[str, ...] = SOLVERS
    note: Mapping[str, str] = field(default_factory=dict)
    same_as: str | None = None

    @property
    def penalised(self) -> bool:
        """Whether a penalty is added to the loss, which annealing can put off."""
        return self.terms is not None or self.penalty is not None

    def objective(self, rows: Rows, classes: int, l2: float) -> Objective:
        """What the converged solver minimises, its weights yet to be set."""
        if self.terms is not None:
            return TermObjective(rows, classes, l2=l2, terms=self.terms)
        return AlignmentObjective(rows, classes, l2=l2, scaling=self.scaling)


def _alignment(
    name: str, label: str, grid: Mapping[str, tuple[float, ...]], scaling: str = SCALING, note: str = ""
) -> ProbeMethod:
    """Moment alignment with some of the orders, by default in the units of the published weights."""
    names = {"gradient_weight": "gradient", "hessian_weight": "hessian", "third_weight": "order_3"}

    def weights(hparams: Hparams) -> dict[str, float]:
        return {names[key]: hparams[key] for key in grid}

    def penalty(hparams: Hparams, anneal_steps: int, domains: int) -> DomainPenalty:
        orders = {place: hparams[key] for place, key in enumerate(names, 1) if key in grid}
        return MomentAlignment(
            orders,
            scaling=scaling,
            bias=False,
            anneal_steps=anneal_steps,
            num_domains=domains,
            validate=False,
            route="direct" if max(orders) < 3 else "gram",  # few features for the rows of a batch
        )

    notes = dict.fromkeys(SOLVERS, note) if note else {}
    return ProbeMethod(name, label, grid, weights, penalty=penalty, scaling=scaling, note=notes)


def _hessian_weights(hparams: Hparams) -> dict[str, float]:
    return {"gradient": hparams["gradient_weight"], "hessian": hparams["hessian_weight"]}


def _fishr_weights(hparams: Hparams) -> dict[str, float]:
    # With all rows in every step the average over steps ends at v/(1 − γ), of which v alone has a gradient: the method
    # ends where the plain penalty with weight λ/(1 − γ) does.
    return {"gradient_variance": hparams["weight"] / (1.0 - hparams["momentum"])}


_FEW = {"weight": (1.0, 10.0, 100.0, 1e3, 1e4)}
_SECOND_ORDER = {"gradient_weight": (0.1, 1.0, 10.0, 100.0, 1e3), "hessian_weight": _TENS}

METHODS: dict[str, ProbeMethod] = {
    method.name: method
    for method in (
        ProbeMethod("erm", "ERM", note=dict.fromkeys(SOLVERS, "rows count alike")),
        ProbeMethod("erm-balanced", "ERM, balanced", note=dict.fromkeys(SOLVERS, "domains count alike, as below")),
        ProbeMethod(
            "coral",
            "CORAL",
            tuned=(),
            note=dict.fromkeys(SOLVERS, "no effect on fixed features: ERM's fit, nothing tuned"),
            same_as="erm",
        ),
        ProbeMethod(
            "fishr",
            "Fishr",
            {"weight": (10.0, 100.0, 1e3, 1e4), "momentum": (0.9, 0.9225, 0.945, 0.9675, 0.99)},
            _fishr_weights,
            terms.fishr,
            lambda hparams, steps, domains: Fishr(
                hparams["weight"],
                momentum=hparams["momentum"],
                anneal_steps=steps,
                bias=False,
                num_domains=domains,
                validate=False,
            ),
        ),
        ProbeMethod("hgp", "HGP", _SECOND_ORDER, _hessian_weights, terms.hgp),
        ProbeMethod("hutchinson", "Hutchinson", _SECOND_ORDER, _hessian_weights, terms.hutchinson),
        ProbeMethod(
            "irm",
            "IRM",
            _FEW,
            lambda hparams: {"gradient_norm": hparams["weight"]},
            terms.irm,
            initial_weight=1.0,
        ),
        ProbeMethod(
            "vrex",
            "VREx",
            _FEW,
            lambda hparams: {"loss_variance": hparams["weight"]},
            terms.vrex,
            initial_weight=1.0,
        ),
        ProbeMethod(
            "groupdro",
            "GroupDRO",
            {"eta": (1e-3, 1e-2, 1e-1)},
            tuned=("sgd",),
            note={"converged": "least loss of the worst domain, the limit for every η"},
        ),
        _alignment("gradient-matching", "Gradient matching", {"gradient_weight": _ALIGNMENT}),
        _alignment("hessian-matching", "Hessian matching", {"hessian_weight": _ALIGNMENT}),
        _alignment("cma", "CMA", {"gradient_weight": _ALIGNMENT, "hessian_weight": _ALIGNMENT}),
        _alignment(
            "cma-relative",
            "CMA, relative",
            {"gradient_weight": _RELATIVE, "hessian_weight": _RELATIVE},
            scaling="relative",
            note="relative weights",
        ),
        _alignment(
            "moment-alignment",
            "Moment alignment",
            {
                "gradient_weight": _ALIGNMENT[::3],
                "hessian_weight": _ALIGNMENT[::3],
                "third_weight": (1.0, 10.0, 100.0, 1e3),
            },
        ),
    )
}

PROTOCOL_METHODS = (
    "erm",
    "erm-balanced",
    "coral",
    "fishr",
    "hgp",
    "hutchinson",
    "irm",
    "vrex",
    "groupdro",
    "cma",
    "cma-relative",
)
"""What :func:`run_protocol` compares unless told otherwise."""


def find_method(name: str) -> ProbeMethod:
    """A method by its name; a name that does not exist is answered with the nearest one."""
    return METHODS[check_choice("method", name, METHODS)]


def method_grid(name: str, solver: str, recipe: Recipe, *, train_rows: int) -> list[dict[str, float]]:
    """Hyper-parameter sets of a method, the published best one first where there is one.

    Args:
        name: Of the method.
        solver: `"converged"` or `"sgd"`; the latter has annealing steps as well.
        recipe: Of the data set.
        train_rows: Number of training rows, which steps are counted by.

    Returns:
        The sets; one without hyper-parameters where there is nothing to tune.

    Example:
        >>> from momentalign.probing import recipe_for
        >>> grid = method_grid("cma", "converged", recipe_for("waterbirds"), train_rows=4795)
        >>> len(grid), grid[0]
        (49, {'gradient_weight': 10.0, 'hessian_weight': 1000.0})
    """
    method = find_method(name)
    check_choice("solver", solver, SOLVERS)
    grid = dict(method.grid) if solver in method.tuned else {}
    if solver == "sgd" and method.penalised:
        grid["anneal_steps"] = recipe.anneal_grid(train_rows)
    sets = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    best = {key: value for key, value in recipe.best.get(name, {}).items() if key in grid}
    return [best, *(one for one in sets if one != best)] if best and set(best) == set(grid) else sets
