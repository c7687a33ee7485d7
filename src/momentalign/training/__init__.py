"""Training networks end to end: one readable loop, records, checkpoints to go on from, models that can be used.

A run is a :class:`RunConfig`, made by :func:`make_config`; :func:`run` trains it into a folder, :func:`load` gives the
network back and :func:`evaluate` tries it on other data.
"""

from momentalign._files import DiskFullError
from momentalign.runs import RunConfig
from momentalign.training._checkpoint import find_position
from momentalign.training._config import make_config
from momentalign.training._cost import Cost, estimate
from momentalign.training._evaluation import Score, evaluate
from momentalign.training._options import Clock, Progress
from momentalign.training._predictor import Predictor, load
from momentalign.training._run import run

__all__ = [
    "Clock",
    "Cost",
    "DiskFullError",
    "Predictor",
    "Progress",
    "RunConfig",
    "Score",
    "estimate",
    "evaluate",
    "find_position",
    "load",
    "make_config",
    "run",
]
