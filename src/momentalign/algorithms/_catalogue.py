"""The table of algorithms: class, title, search spaces; and classes by import path."""

import importlib
import inspect
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from momentalign._format import suggest
from momentalign._validation import SCALINGS
from momentalign.algorithms._base import Algorithm
from momentalign.algorithms._dann import CDANN, DANN
from momentalign.algorithms._domain_gradients import IGA, ANDMask, Fish
from momentalign.algorithms._erm import ERM
from momentalign.algorithms._group_dro import GroupDRO
from momentalign.algorithms._search_space import (
    Hyperparameter,
    SearchSpace,
    one_of,
    power_of_ten,
    power_of_two,
    uniform,
    whole,
)
from momentalign.algorithms._selfreg import SelfReg
from momentalign.algorithms._spec import AlgorithmSpec
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
_DOMAINBED = whole(power_of_ten(0, 4))
_PUBLISHED = {"anneal_steps": Hyperparameter(2500, one_of(500, 1500, 2500, 3500, 4500)), **_CLASSES}
_RELEASED = {"anneal_steps": Hyperparameter(0, whole(power_of_ten(2, 4))), **_CLASSES}
_SUMS = {  # smaller weights, because the sums over steps are larger
    "gradient_weight": Hyperparameter(100.0, power_of_ten(0.5, 3)),
    "hessian_weight": Hyperparameter(10.0, power_of_ten(-0.5, 2)),
    **_MOMENTUM,
    "anneal_steps": Hyperparameter(1500, whole(uniform(500, 4500))),
    **_CLASSES,
}
_VREX = {"weight": Hyperparameter(10.0, power_of_ten(-1, 5))}


def _safe(weights: SearchSpace) -> SearchSpace:
    """Relative scaling without annealing; the default did no harm in docs/results/fine-tuning.md."""
    return {
        **dict.fromkeys(weights, Hyperparameter(0.1, power_of_ten(-2, 0))),
        "momentum": Hyperparameter(0.0),
        **_NO_ANNEALING,
        "scaling": Hyperparameter("relative", choices=SCALINGS),
    }


_TABLE: dict[str, tuple[Any, ...]] = {
    "erm": (ERM, "ERM", {}),
    "groupdro": (GroupDRO, "GroupDRO", {"eta": Hyperparameter(0.01, power_of_ten(-3, -1), low=0)}),
    "fish": (Fish, "Fish", {"meta_lr": Hyperparameter(0.5, one_of(0.05, 0.1, 0.5), low=0)}),
    "iga": (IGA, "IGA", {"gradient_weight": Hyperparameter(1000.0, power_of_ten(1, 5), low=0)}),
    "andmask": (ANDMask, "AND-Mask", {"tau": Hyperparameter(1.0, uniform(0.5, 1.0), low=0, high=1)}),
    "dann": (DANN, "DANN", _ADVERSARY),
    "cdann": (CDANN, "CDANN", _ADVERSARY),
    "selfreg": (SelfReg, "SelfReg", {}),
    "irm": (
        IRM,
        "IRM",
        {
            "weight": Hyperparameter(100.0, power_of_ten(-1, 5)),  # DomainBed's, for version "scale"
            "anneal_steps": Hyperparameter(500, _DOMAINBED),
            "version": Hyperparameter("scale", choices=("head", "scale")),
        },
    ),
    "vrex": (
        VREx,
        "VREx",
        {**_VREX, "anneal_steps": Hyperparameter(500, _DOMAINBED)},
        {"released": {**_VREX, "anneal_steps": Hyperparameter(0, _DOMAINBED)}},  # in the public code of CMA
    ),
    "mmd": (MMD, "MMD", _FEATURES),
    "coral": (CORAL, "CORAL", _FEATURES),
    "fishr": (
        Fishr,
        "Fishr",
        {
            "weight": Hyperparameter(1000.0, power_of_ten(1, 4)),
            "momentum": Hyperparameter(0.95, uniform(0.90, 0.99)),
            "anneal_steps": Hyperparameter(1500, whole(uniform(0, 5000))),
        },
    ),
    "hgp": (
        HGP,
        "HGP",
        {
            "gradient_weight": Hyperparameter(5e-3, power_of_ten(-3, -1)),
            "hessian_weight": Hyperparameter(1e-4, power_of_ten(-5, -3)),  # alpha in the released code
            "center": Hyperparameter("product", choices=("mean", "product")),
            **_NO_ANNEALING,
        },
    ),
    "hutchinson": (
        Hutchinson,
        "Hutchinson",
        {
            "gradient_weight": Hyperparameter(5e-3, power_of_ten(2, 6)),
            "hessian_weight": Hyperparameter(1e-3, power_of_ten(1, 4)),
            **_NO_ANNEALING,
        },
    ),
    "gradient-matching": (
        GradientMatching,
        "Gradient matching",
        {**_GRADIENT, **_PUBLISHED},
        {"safe": _safe(_GRADIENT)},
    ),
    "hessian-matching": (HessianMatching, "Hessian matching", {**_HESSIAN, **_PUBLISHED}, {"safe": _safe(_HESSIAN)}),
    "moment-alignment": (
        MomentAlignment,
        "Moment alignment",
        {**_BOTH, **_THIRD, **_PUBLISHED},
        {"safe": _safe({**_BOTH, **_THIRD})},
    ),
    "cma": (CMA, "CMA", {**_BOTH, **_PUBLISHED}, {"safe": _safe(_BOTH), "released": {**_BOTH, **_RELEASED}}),
    "cma-momentum": (CMA, "CMA with momentum", _SUMS, {"safe": {**_safe(_BOTH), **_MOMENTUM}}),
    "cma-diagonal": (
        Hutchinson,
        "CMA, diagonal",
        {**_BOTH, **_PUBLISHED, **_DIAGONAL_CLASSES},
        {"released": {**_BOTH, **_RELEASED, **_DIAGONAL_CLASSES}},
    ),
}
"""Class, title, published hyper-parameters beside the shared ones, and those of other presets where they differ.

Annealing steps that are searched are those of a run of the protocol.
"""

_CATALOGUE = {
    name: AlgorithmSpec(name, cls, title, {"published": published, **dict(*others)})
    for name, (cls, title, published, *others) in _TABLE.items()
}
"""Algorithms in the order of tables; what an alias sets is in its search space."""

PLAIN_MODELS = {"logistic-regression": "LogisticRegression", "logistic-regression-cv": "LogisticRegressionCV"}
"""scikit-learn's models, with their labels, that sweeps of tables run as baselines."""


def algorithm_names() -> tuple[str, ...]:
    """Names that :func:`find_algorithm` knows without an import path, in the order of tables."""
    return tuple(_CATALOGUE)


def find_algorithm(name: str) -> AlgorithmSpec:
    """Find an algorithm by name or import path.

    Args:
        name: One of :func:`algorithm_names`, or `package.module:Name` (or `package.module.Name`), the import path of
            a :class:`DomainPenalty` or :class:`Algorithm`; modules in the current folder are found as well.

    Returns:
        How to build it, and its search space.

    Raises:
        ValueError: There is no such algorithm.

    Example:
        >>> find_algorithm("cma").label
        'CMA'
        >>> find_algorithm("momentalign.penalties:CORAL").space("mnist", 5001)["weight"].default
        1.0
    """
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    if ":" in name:
        cls = _import_class(name)
        ours = (replace(spec, name=name) for spec in _CATALOGUE.values() if spec.cls is cls)
        return next(ours, AlgorithmSpec(name, cls))
    if "." in name:  # the other common way to write it
        return find_algorithm(":".join(name.rsplit(".", 1)))
    if name in PLAIN_MODELS:
        raise ValueError(
            f"'{name}' is no algorithm that trains a network. Use 'momentalign sweep' on a table, which runs it beside "
            "the algorithms, or 'momentalign probe'."
        )
    raise ValueError(
        f"There is no algorithm '{name}'. There are: {', '.join(_CATALOGUE)}; write your own as 'package.module:Name'."
        + suggest(name.lower(), _CATALOGUE)
    )


def _import_class(path: str) -> type[Algorithm] | type[DomainPenalty]:
    module_name, _, class_name = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise ValueError(f"An import path should look like 'package.module:Name', but is '{path}'.")
    module = _import_module(path, module_name)
    cls = getattr(module, class_name, None)
    if not isinstance(cls, type) or not issubclass(cls, (Algorithm, DomainPenalty)) or inspect.isabstract(cls):
        lacking = "".join(f", which lacks {name}" for name in sorted(getattr(cls, "__abstractmethods__", ())))
        raise ValueError(f"'{path}' should be a concrete DomainPenalty or Algorithm class, but is {cls!r}{lacking}.")
    return cls


def _import_module(path: str, name: str) -> ModuleType:
    """Import a module, also from the current folder, which is not on the path of an installed command."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise ValueError(
            f"'{path}' should be the import path of a class, but there is no module '{error.name}' here or installed."
        ) from None
    except SyntaxError as error:
        raise ValueError(f"'{path}' cannot be imported: {error.msg} ({error.filename}, line {error.lineno}).") from None
    finally:
        sys.path.remove(here)
