"""Sweeps: a plan lists the runs, an engine executes them, and their folders hold the results.

:func:`make_plan` lists the runs that selection rules need, :func:`make_probe_plan` those of linear probes, and
:func:`run_sweep` executes them on a :class:`LocalEngine` or a :class:`RayEngine`. A run is a folder named by the hash
of its configuration, so a sweep can be interrupted at any point and resumed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from momentalign.sweep._jobs import Advance, Engine, Job, Outcome
from momentalign.sweep._local import LocalEngine
from momentalign.sweep._plan import Plan, make_plan, make_probe_plan
from momentalign.sweep._run import Remaining, Tally, remaining, run_sweep

if TYPE_CHECKING:
    from momentalign.sweep._ray import RayEngine

__all__ = [
    "Advance",
    "Engine",
    "Job",
    "LocalEngine",
    "Outcome",
    "Plan",
    "RayEngine",
    "Remaining",
    "Tally",
    "make_plan",
    "make_probe_plan",
    "remaining",
    "run_sweep",
]


def __getattr__(name: str) -> Any:
    # Ray is an optional extra, and slow to import.
    if name == "RayEngine":
        return import_module("momentalign.sweep._ray").RayEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
