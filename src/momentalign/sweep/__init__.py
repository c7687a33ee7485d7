"""Sweeps: a plan says what runs, an engine where, and folders what is done.

:func:`make_plan` lists the runs that the selection rules need, :func:`make_probe_plan` those of linear probes,
:func:`estimate` says what they cost, and :func:`run_sweep` works through them on a :class:`LocalEngine` or a
:class:`RayEngine`. A run is a folder named by the hash of its configuration, so a sweep can be stopped at any point and
started again.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from momentalign.sweep._estimate import Estimate, estimate
from momentalign.sweep._jobs import Engine, Job, Outcome
from momentalign.sweep._local import LocalEngine
from momentalign.sweep._plan import Plan, make_plan
from momentalign.sweep._probes import make_probe_plan
from momentalign.sweep._remaining import Remaining, remaining
from momentalign.sweep._run import Tally, run_sweep

if TYPE_CHECKING:
    from momentalign.sweep._ray import RayEngine

__all__ = [
    "Engine",
    "Estimate",
    "Job",
    "LocalEngine",
    "Outcome",
    "Plan",
    "RayEngine",
    "Remaining",
    "Tally",
    "estimate",
    "make_plan",
    "make_probe_plan",
    "remaining",
    "run_sweep",
]


def __getattr__(name: str) -> Any:
    # Ray is an extra of its own, and slow to import.
    if name == "RayEngine":
        return import_module("momentalign.sweep._ray").RayEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
