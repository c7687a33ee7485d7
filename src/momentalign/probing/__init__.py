"""The worst-group linear-probing protocol of the paper: linear heads on fixed features."""

from momentalign.probing._config import make_probe_config
from momentalign.probing._data import ProbeData
from momentalign.probing._features import ProbeFeatures, ProbeScores, Projection, project
from momentalign.probing._fit import ProbeSolver
from momentalign.probing._methods import (
    GROUP_METHODS,
    METHODS,
    PROTOCOL_METHODS,
    ProbeMethod,
    find_method,
)
from momentalign.probing._protocol import ProtocolResult, run_protocol
from momentalign.probing._recipes import ProbeRecipe, method_grid, recipe_for
from momentalign.probing._run import feature_source, run_probe

__all__ = [
    "GROUP_METHODS",
    "METHODS",
    "PROTOCOL_METHODS",
    "ProbeData",
    "ProbeFeatures",
    "ProbeMethod",
    "ProbeRecipe",
    "ProbeScores",
    "ProbeSolver",
    "Projection",
    "ProtocolResult",
    "feature_source",
    "find_method",
    "make_probe_config",
    "method_grid",
    "project",
    "recipe_for",
    "run_probe",
    "run_protocol",
]
