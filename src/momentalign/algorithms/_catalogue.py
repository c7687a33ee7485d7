"""The algorithms by name, each with its search space: the protocol's draws, names by what they weigh."""

from momentalign.algorithms._and_mask import ANDMask
from momentalign.algorithms._dann import CDANN, DANN
from momentalign.algorithms._erm import ERM
from momentalign.algorithms._fish import Fish
from momentalign.algorithms._group_dro import GroupDRO
from momentalign.algorithms._iga import IGA
from momentalign.algorithms._search import (
    Hyperparameter,
    SearchSpace,
    annealing,
    one_of,
    power_of_ten,
    uniform,
    whole,
)
from momentalign.algorithms._selfreg import SelfReg
from momentalign.algorithms._specs import AlgorithmSpec, class_spec, penalty_spec
from momentalign.penalties import (
    CMA,
    CORAL,
    HGP,
    IRM,
    MMD,
    DomainPenalty,
    Fishr,
    GradientMatching,
    HessianMatching,
    Hutchinson,
    MomentAlignment,
    VREx,
)

_SCALING = Hyperparameter("classes", choices=("none", "classes", "parameters", "relative"))
_GRADIENT = Hyperparameter(5000.0, power_of_ten(1, 4))
_HESSIAN = Hyperparameter(1000.0, power_of_ten(1, 4))
_AT_ONCE = Hyperparameter(0)


def _alignment_space(steps: int, **weights: Hyperparameter) -> SearchSpace:
    waiting = annealing(2500, one_of(500, 1500, 2500, 3500, 4500), steps)
    return {**weights, "anneal_steps": waiting, "scaling": _SCALING}


def _gradient_matching(recipe: str, steps: int) -> SearchSpace:
    return _alignment_space(steps, gradient_weight=_GRADIENT)


def _hessian_matching(recipe: str, steps: int) -> SearchSpace:
    return _alignment_space(steps, hessian_weight=_HESSIAN)


def _cma(recipe: str, steps: int) -> SearchSpace:
    return _alignment_space(steps, gradient_weight=_GRADIENT, hessian_weight=_HESSIAN)


def _moment_alignment(recipe: str, steps: int) -> SearchSpace:
    third = Hyperparameter(100.0, power_of_ten(0, 3))
    return _alignment_space(steps, gradient_weight=_GRADIENT, hessian_weight=_HESSIAN, order_3_weight=third)


def _cma_momentum(recipe: str, steps: int) -> SearchSpace:
    return {
        "gradient_weight": Hyperparameter(100.0, power_of_ten(0.5, 3)),
        "hessian_weight": Hyperparameter(10.0, power_of_ten(-0.5, 2)),
        "momentum": Hyperparameter(0.95, uniform(0.90, 0.98)),
        "anneal_steps": annealing(1500, whole(uniform(500, 4500)), steps),
        "scaling": _SCALING,
    }


def _irm(recipe: str, steps: int) -> SearchSpace:
    return {
        "weight": Hyperparameter(100.0, power_of_ten(-1, 5)),
        "anneal_steps": annealing(500, whole(power_of_ten(0, 4)), steps),
        "version": Hyperparameter("scale", choices=("head", "scale")),  # DomainBed's, which the weights are for
    }


def _vrex(recipe: str, steps: int) -> SearchSpace:
    return {
        "weight": Hyperparameter(10.0, power_of_ten(-1, 5)),
        "anneal_steps": annealing(500, whole(power_of_ten(0, 4)), steps),
    }


def _features(recipe: str, steps: int) -> SearchSpace:
    return {"weight": Hyperparameter(1.0, power_of_ten(-1, 1)), "anneal_steps": _AT_ONCE}


def _fishr(recipe: str, steps: int) -> SearchSpace:
    return {
        "weight": Hyperparameter(1000.0, power_of_ten(1, 4)),
        "momentum": Hyperparameter(0.95, uniform(0.90, 0.99)),
        "anneal_steps": annealing(1500, whole(uniform(0, 5000)), steps),
    }


def _hgp(recipe: str, steps: int) -> SearchSpace:
    return {
        "gradient_weight": Hyperparameter(5e-3, power_of_ten(-3, -1)),
        "hessian_weight": Hyperparameter(1e-4, power_of_ten(-5, -3)),
        "center": Hyperparameter("mean", choices=("mean", "product")),
        "anneal_steps": _AT_ONCE,
    }


def _hutchinson(recipe: str, steps: int) -> SearchSpace:
    return {
        "gradient_weight": Hyperparameter(5e-3, power_of_ten(2, 6)),
        "hessian_weight": Hyperparameter(1e-3, power_of_ten(1, 4)),
        "anneal_steps": _AT_ONCE,
    }


def _three_orders(
    gradient_weight: float,
    hessian_weight: float,
    order_3_weight: float,
    *,
    anneal_steps: int,
    scaling: str,
    num_domains: int,
) -> DomainPenalty:
    weights = {1: gradient_weight, 2: hessian_weight, 3: order_3_weight}
    return MomentAlignment(weights, anneal_steps=anneal_steps, scaling=scaling, num_domains=num_domains)


_LISTED = (
    class_spec("erm", "ERM", ERM),
    penalty_spec("irm", "IRM", IRM, _irm),
    penalty_spec("vrex", "VREx", VREx, _vrex),
    class_spec("groupdro", "GroupDRO", GroupDRO),
    penalty_spec("mmd", "MMD", MMD, _features),
    penalty_spec("coral", "CORAL", CORAL, _features),
    penalty_spec("fishr", "Fishr", Fishr, _fishr),
    class_spec("fish", "Fish", Fish),
    class_spec("iga", "IGA", IGA),
    class_spec("andmask", "AND-Mask", ANDMask),
    class_spec("dann", "DANN", DANN),
    class_spec("cdann", "CDANN", CDANN),
    class_spec("selfreg", "SelfReg", SelfReg),
    penalty_spec("hgp", "HGP", HGP, _hgp),
    penalty_spec("hutchinson", "Hutchinson", Hutchinson, _hutchinson),
    penalty_spec("gradient-matching", "Gradient matching", GradientMatching, _gradient_matching),
    penalty_spec("hessian-matching", "Hessian matching", HessianMatching, _hessian_matching),
    penalty_spec("moment-alignment", "Moment alignment", _three_orders, _moment_alignment),
    penalty_spec("cma", "CMA", CMA, _cma),
    penalty_spec("cma-momentum", "CMA with momentum", CMA, _cma_momentum),
)

CATALOGUE: dict[str, AlgorithmSpec] = {spec.name: spec for spec in _LISTED}
"""All algorithms by name, in the order in which they are listed to people."""
