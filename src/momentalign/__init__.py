"""Exact gradient, Hessian and higher-order alignment for domain generalization, at the price of ERM."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from pathlib import Path

    from momentalign.training import Predictor

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
    "load",
]


def load(folder: str | Path) -> Predictor:
    """Load the network of a run, with its preprocessing and the names of its classes.

    Weights and a description are read; no code is. What it needs is imported only now.

    Args:
        folder: Folder of a run of `momentalign train` or of a sweep.

    Returns:
        An `nn.Module` in evaluation mode, from inputs to logits; its `predict` names classes.
    """
    from momentalign.training import load as load_run

    return load_run(folder)
