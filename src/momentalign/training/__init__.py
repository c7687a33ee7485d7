"""Train networks end to end: one readable loop, records, checkpoints to resume from, and models to use.

:func:`make_config` makes the configuration of a run; :func:`run` trains it into a folder; :func:`load_run` loads the
network, and :func:`evaluate` scores it on other data. :func:`make_soup` averages the weights of several runs,
:func:`export_model` writes a network to a file that other programs run.
`momentalign.runs` describes the folder.
"""

from momentalign._files import DiskFullError
from momentalign.runs import RunConfig
from momentalign.training._checkpoint import find_position
from momentalign.training._config import make_config
from momentalign.training._devices import check_installed, check_precision, peak_memory
from momentalign.training._evaluation import Score, evaluate
from momentalign.training._export import EXPORT_KINDS, export_model
from momentalign.training._options import Clock, Progress, RunOptions
from momentalign.training._plain import make_plain_config, run_plain
from momentalign.training._predictor import Predictor, is_linear_model, load_model, load_run
from momentalign.training._presets import augmentation_note, preset_notes
from momentalign.training._run import run
from momentalign.training._soup import SoupPlan, SoupScore, make_soup, plan_soups

__all__ = [
    "EXPORT_KINDS",
    "Clock",
    "DiskFullError",
    "Predictor",
    "Progress",
    "RunConfig",
    "RunOptions",
    "Score",
    "SoupPlan",
    "SoupScore",
    "augmentation_note",
    "check_installed",
    "check_precision",
    "evaluate",
    "export_model",
    "find_position",
    "is_linear_model",
    "load_model",
    "load_run",
    "make_config",
    "make_plain_config",
    "make_soup",
    "peak_memory",
    "plan_soups",
    "preset_notes",
    "run",
    "run_plain",
]
