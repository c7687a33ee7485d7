"""Exact gradient, Hessian and higher-order alignment for domain generalization, at the price of ERM."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

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

_ROOMS = (
    "algorithms",
    "closed_form",
    "data",
    "encoders",
    "functional",
    "linear",
    "penalties",
    "probing",
    "published",
    "report",
    "reproduce",
    "selection",
    "sklearn",
    "sweep",
    "tables",
    "theory",
    "training",
)


if not TYPE_CHECKING:  # so that a type checker still finds names that are not there

    def __getattr__(name: str) -> Any:
        """Penalties, and the modules that hold the rest, imported when they are first asked for."""
        if name in _ROOMS:
            return import_module(f"momentalign.{name}")
        if name in __all__:
            return getattr(import_module("momentalign.penalties"), name)
        raise AttributeError(f"module 'momentalign' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})


def load(folder: str | Path) -> Predictor:
    """Load the network of a run, with its preprocessing and the names of its classes.

    Weights and a description are read; no code is. What it needs is imported only now.

    Args:
        folder: Folder of a run of `momentalign train` or of a sweep.

    Returns:
        An `nn.Module` in evaluation mode, from inputs to logits; its `predict` names classes.
    """
    from momentalign.training import load_run

    return load_run(folder)
