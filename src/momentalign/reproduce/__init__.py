"""A recipe for each table and figure of the paper.

Names are imported when they are used: a list of recipes needs none of what running them takes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from momentalign.reproduce._kinds import CostRecipe, ProbeRecipe, SweepRecipe
    from momentalign.reproduce._needs import Missing, missing_data
    from momentalign.reproduce._probes import make_features, probe_curves, probe_table
    from momentalign.reproduce._recipes import find_recipe, recipe_names
    from momentalign.reproduce._sweeps import plan_of, results_of

_HOMES = {
    "CostRecipe": "_kinds",
    "Missing": "_needs",
    "ProbeRecipe": "_kinds",
    "SweepRecipe": "_kinds",
    "find_recipe": "_recipes",
    "make_features": "_probes",
    "missing_data": "_needs",
    "plan_of": "_sweeps",
    "probe_curves": "_probes",
    "probe_table": "_probes",
    "recipe_names": "_recipes",
    "results_of": "_sweeps",
}

__all__ = [
    "CostRecipe",
    "Missing",
    "ProbeRecipe",
    "SweepRecipe",
    "find_recipe",
    "make_features",
    "missing_data",
    "plan_of",
    "probe_curves",
    "probe_table",
    "recipe_names",
    "results_of",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
