"""Exact gradient, Hessian and higher-order alignment for domain generalization, at the price of ERM."""

from momentalign.penalties import (
    CMA,
    CORAL,
    HGP,
    IRM,
    MMD,
    Fishr,
    GradientMatching,
    HessianMatching,
    Hutchinson,
    MomentAlignment,
    VREx,
)

__version__ = "0.1.0"

__all__ = [
    "CMA",
    "CORAL",
    "HGP",
    "IRM",
    "MMD",
    "Fishr",
    "GradientMatching",
    "HessianMatching",
    "Hutchinson",
    "MomentAlignment",
    "VREx",
    "__version__",
]
