"""A recipe for each table and figure of the paper. Modules that only running a recipe needs are imported on use."""

from momentalign.reproduce._differences import differences
from momentalign.reproduce._recipes import (
    CostRecipe,
    MissingData,
    PaperRecipe,
    ProbingRecipe,
    SweepRecipe,
    find_recipe,
    missing_data,
    recipe_names,
)
from momentalign.reproduce._run import (
    check_features,
    features_path,
    make_features,
    plan_of,
    probe_curves,
    probe_table,
    results_of,
    sweep_commands,
)

__all__ = [
    "CostRecipe",
    "MissingData",
    "PaperRecipe",
    "ProbingRecipe",
    "SweepRecipe",
    "check_features",
    "differences",
    "features_path",
    "find_recipe",
    "make_features",
    "missing_data",
    "plan_of",
    "probe_curves",
    "probe_table",
    "recipe_names",
    "results_of",
    "sweep_commands",
]
