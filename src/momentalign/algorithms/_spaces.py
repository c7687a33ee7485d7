"""The table of algorithms: class, title, and a search space for each preset that differs from the published one."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from momentalign._validation import SCALINGS
from momentalign.algorithms._base import Algorithm
from momentalign.algorithms._dann import CDANN, DANN
from momentalign.algorithms._domain_gradients import IGA, ANDMask, Fish
from momentalign.algorithms._erm import ERM
from momentalign.algorithms._group_dro import GroupDRO
from momentalign.algorithms._search_space import (
    Hyperparameter,
    SearchSpace,
    annealing,
    one_of,
    power_of_ten,
    power_of_two,
    uniform,
    whole,
)
from momentalign.algorithms._selfreg import SelfReg
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

PRESETS = ("published", "safe", "released")
"""Search spaces of an algorithm: the paper's, one that is safe for any data and encoder, and the public code's."""

SAFE_WEIGHTS = (
    "so small (0.1; 0.01 to 1 are searched) that results are close to ERM's; --preset published searches the paper's, "
    "which gained on small networks trained from scratch and ruined a pretrained one"
)
"""What the weights of the preset "safe" do, as measured in docs/results/fine-tuning.md."""

_NO_ANNEALING = {"anneal_steps": Hyperparameter(0)}
_FEATURES = {"weight": Hyperparameter(1.0, power_of_ten(-1, 1)), **_NO_ANNEALING}
_ADVERSARY = {
    "discriminator_weight": Hyperparameter(1.0, power_of_ten(-2, 2), low=0),
    "discriminator_weight_decay": Hyperparameter(0.0, power_of_ten(-6, -2), low=0),
    "discriminator_steps": Hyperparameter(1, whole(power_of_two(0, 3)), low=1),
    "gradient_penalty_weight": Hyperparameter(0.0, power_of_ten(-2, 1), low=0),
    "beta1": Hyperparameter(0.5, one_of(0.0, 0.5), low=0, high=1),
    "discriminator_width": Hyperparameter(256, whole(power_of_two(6, 10)), low=1),
    "discriminator_depth": Hyperparameter(3, one_of(3, 4, 5), low=2),
    "discriminator_dropout": Hyperparameter(0.0, one_of(0.0, 0.1, 0.5), low=0, high=1),
}

_GRADIENT = {"gradient_weight": Hyperparameter(5000.0, power_of_ten(1, 4))}
_HESSIAN = {"hessian_weight": Hyperparameter(1000.0, power_of_ten(1, 4))}
_THIRD = {"order_3_weight": Hyperparameter(100.0, power_of_ten(0, 3))}
_BOTH = {**_GRADIENT, **_HESSIAN}
_CLASSES = {"scaling": Hyperparameter("classes", choices=SCALINGS)}
_DIAGONAL_CLASSES = {"scaling": Hyperparameter("classes", choices=("none", "classes", "parameters"))}
_MOMENTUM = {"momentum": Hyperparameter(0.95, uniform(0.90, 0.98))}


class Row(NamedTuple):
    """An algorithm, or a penalty for ERM: its class, name in tables, and own hyper-parameters by preset."""

    cls: type[Algorithm] | type[DomainPenalty]
    title: str
    spaces: Mapping[str, SearchSpace]


def algorithm_table(steps: int) -> dict[str, Row]:
    """All algorithms by name, with their hyper-parameters beside the shared ones for runs of so many steps."""
    domainbed = whole(power_of_ten(0, 4))
    published = {"anneal_steps": annealing(2500, one_of(500, 1500, 2500, 3500, 4500), steps), **_CLASSES}
    released = {"anneal_steps": annealing(0, whole(power_of_ten(2, 4)), steps), **_CLASSES}
    momentum = {  # smaller weights, because the sums over steps are larger
        "gradient_weight": Hyperparameter(100.0, power_of_ten(0.5, 3)),
        "hessian_weight": Hyperparameter(10.0, power_of_ten(-0.5, 2)),
        **_MOMENTUM,
        "anneal_steps": annealing(1500, whole(uniform(500, 4500)), steps),
        **_CLASSES,
    }
    vrex = {"weight": Hyperparameter(10.0, power_of_ten(-1, 5))}
    return {
        "erm": _row(ERM, "ERM", {}),
        "groupdro": _row(GroupDRO, "GroupDRO", {"eta": Hyperparameter(0.01, power_of_ten(-3, -1), low=0)}),
        "fish": _row(Fish, "Fish", {"meta_lr": Hyperparameter(0.5, one_of(0.05, 0.1, 0.5), low=0)}),
        "iga": _row(IGA, "IGA", {"gradient_weight": Hyperparameter(1000.0, power_of_ten(1, 5), low=0)}),
        "andmask": _row(ANDMask, "AND-Mask", {"tau": Hyperparameter(1.0, uniform(0.5, 1.0), low=0, high=1)}),
        "dann": _row(DANN, "DANN", _ADVERSARY),
        "cdann": _row(CDANN, "CDANN", _ADVERSARY),
        "selfreg": _row(SelfReg, "SelfReg", {}),
        "irm": _row(
            IRM,
            "IRM",
            {
                "weight": Hyperparameter(100.0, power_of_ten(-1, 5)),  # DomainBed's, for version "scale"
                "anneal_steps": annealing(500, domainbed, steps),
                "version": Hyperparameter("scale", choices=("head", "scale")),
            },
        ),
        "vrex": _row(
            VREx,
            "VREx",
            {**vrex, "anneal_steps": annealing(500, domainbed, steps)},
            released={**vrex, "anneal_steps": annealing(0, domainbed, steps)},  # in the public code of CMA
        ),
        "mmd": _row(MMD, "MMD", _FEATURES),
        "coral": _row(CORAL, "CORAL", _FEATURES),
        "fishr": _row(
            Fishr,
            "Fishr",
            {
                "weight": Hyperparameter(1000.0, power_of_ten(1, 4)),
                "momentum": Hyperparameter(0.95, uniform(0.90, 0.99)),
                "anneal_steps": annealing(1500, whole(uniform(0, 5000)), steps),
            },
        ),
        "hgp": _row(
            HGP,
            "HGP",
            {
                "gradient_weight": Hyperparameter(5e-3, power_of_ten(-3, -1)),
                "hessian_weight": Hyperparameter(1e-4, power_of_ten(-5, -3)),  # alpha in the released code
                "center": Hyperparameter("product", choices=("mean", "product")),
                **_NO_ANNEALING,
            },
        ),
        "hutchinson": _row(
            Hutchinson,
            "Hutchinson",
            {
                "gradient_weight": Hyperparameter(5e-3, power_of_ten(2, 6)),
                "hessian_weight": Hyperparameter(1e-3, power_of_ten(1, 4)),
                **_NO_ANNEALING,
            },
        ),
        "gradient-matching": _row(
            GradientMatching, "Gradient matching", {**_GRADIENT, **published}, safe=_safe(_GRADIENT)
        ),
        "hessian-matching": _row(HessianMatching, "Hessian matching", {**_HESSIAN, **published}, safe=_safe(_HESSIAN)),
        "moment-alignment": _row(
            MomentAlignment, "Moment alignment", {**_BOTH, **_THIRD, **published}, safe=_safe({**_BOTH, **_THIRD})
        ),
        "cma": _row(CMA, "CMA", {**_BOTH, **published}, safe=_safe(_BOTH), released={**_BOTH, **released}),
        "cma-momentum": _row(CMA, "CMA with momentum", momentum, safe={**_safe(_BOTH), **_MOMENTUM}),
        "cma-diagonal": _row(
            Hutchinson,
            "CMA, diagonal",
            {**_BOTH, **published, **_DIAGONAL_CLASSES},
            released={**_BOTH, **released, **_DIAGONAL_CLASSES},
        ),
    }


def _row(cls: type[Algorithm] | type[DomainPenalty], title: str, published: SearchSpace, **others: SearchSpace) -> Row:
    return Row(cls, title, {"published": published, **others})


def has_safe_weights(preset: str, hparams: Mapping[str, Any]) -> bool:
    """Whether a run's penalty has weights that :data:`SAFE_WEIGHTS` describes, and not larger ones by `--set`."""
    weights = [value for name, value in hparams.items() if name.endswith("_weight")]
    return preset == "safe" and hparams.get("scaling") == "relative" and max(weights, default=math.inf) <= 1


def _safe(weights: SearchSpace) -> SearchSpace:
    """Relative scaling without annealing; the default did no harm in docs/results/fine-tuning.md."""
    return {
        **dict.fromkeys(weights, Hyperparameter(0.1, power_of_ten(-2, 0))),
        "momentum": Hyperparameter(0.0),
        **_NO_ANNEALING,
        "scaling": Hyperparameter("relative", choices=SCALINGS),
    }
