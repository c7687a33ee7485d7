"""Linear heads on fixed features: the worst-group protocol of the paper."""

from momentalign.probing._config import grid_size, make_probe_config
from momentalign.probing._data import ProbeData
from momentalign.probing._features import ProbeFeatures, Projection, project
from momentalign.probing._methods import METHODS, PROTOCOL_METHODS, ProbeMethod, find_method, method_grid
from momentalign.probing._protocol import run_protocol
from momentalign.probing._recipes import Recipe, recipe_for
from momentalign.probing._result import Fit, MethodResult, ProtocolResult
from momentalign.probing._run import run_probe
from momentalign.probing._scores import Scores

__all__ = [
    "METHODS",
    "PROTOCOL_METHODS",
    "Fit",
    "MethodResult",
    "ProbeData",
    "ProbeFeatures",
    "ProbeMethod",
    "Projection",
    "ProtocolResult",
    "Recipe",
    "Scores",
    "find_method",
    "grid_size",
    "make_probe_config",
    "method_grid",
    "project",
    "recipe_for",
    "run_probe",
    "run_protocol",
]
