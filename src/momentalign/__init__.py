"""Exact gradient, Hessian and higher-order alignment for domain generalization."""

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
    from momentalign.runs import read_runs
    from momentalign.tables import TableModel
    from momentalign.training import Predictor

__version__ = "0.2.0.dev0"

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
    "read_runs",
]

_MODULES = (
    "algorithms",
    "closed_form",
    "data",
    "encoders",
    "functional",
    "hub",
    "linear",
    "penalties",
    "probing",
    "published",
    "report",
    "reproduce",
    "runs",
    "selection",
    "sklearn",
    "sweep",
    "tables",
    "theory",
    "training",
)


if not TYPE_CHECKING:  # so that a type checker still reports names that do not exist

    def __getattr__(name: str) -> Any:
        """Import penalties, modules and functions with heavy packages on first access."""
        if name in _MODULES:
            return import_module(f"momentalign.{name}")
        if name == "read_runs":
            return import_module("momentalign.runs").read_runs
        if name in __all__:
            return getattr(import_module("momentalign.penalties"), name)
        raise AttributeError(f"module 'momentalign' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


def load(folder: str | Path) -> Predictor | TableModel:
    """Load the network of a run, or the linear model of a probe, with its preprocessing and the names of its classes.

    Only weights and a description are read; no code is loaded.

    Args:
        folder: Folder of a run, from `momentalign train` or a sweep, or of a model, from `momentalign probe`.

    Returns:
        For a run an `nn.Module` in evaluation mode, from inputs to logits; for a probe a
        :class:`momentalign.tables.TableModel`. The `predict` of both names the class of each row.

    Raises:
        ValueError: The folder is neither, or has no weights.
    """
    from momentalign.training import load_model

    return load_model(folder)
