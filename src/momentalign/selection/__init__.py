"""Selection of a run and a step: pure functions of the records of runs.

:func:`read_runs` reads folders of runs, ours or DomainBed's, into a :class:`Sweep` of two data frames; :func:`select`
applies one of :data:`RULES`. Nothing here trains or needs the data. :func:`record_scores` scores the records of one run
and needs no data frames: training uses it to choose the weights to keep.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from momentalign.selection._scores import REACH, RECORD_RULES, best_record, record_scores

if TYPE_CHECKING:
    from momentalign.runs import Sweep, read_runs
    from momentalign.selection._accuracies import held_out_rows
    from momentalign.selection._averages import with_averages
    from momentalign.selection._rules import RULES, candidates, select, set_aside
    from momentalign.selection._worst_group import (
        FINALISTS,
        GROUP_RULES,
        best_set,
        best_sets,
        finalists,
        worst_group_candidates,
    )

_MODULES = {
    "FINALISTS": "momentalign.selection._worst_group",
    "GROUP_RULES": "momentalign.selection._worst_group",
    "RULES": "momentalign.selection._rules",
    "Sweep": "momentalign.runs",
    "best_set": "momentalign.selection._worst_group",
    "best_sets": "momentalign.selection._worst_group",
    "candidates": "momentalign.selection._rules",
    "finalists": "momentalign.selection._worst_group",
    "held_out_rows": "momentalign.selection._accuracies",
    "read_runs": "momentalign.runs",
    "select": "momentalign.selection._rules",
    "set_aside": "momentalign.selection._rules",
    "with_averages": "momentalign.selection._averages",
    "worst_group_candidates": "momentalign.selection._worst_group",
}

__all__ = [
    "FINALISTS",
    "GROUP_RULES",
    "REACH",
    "RECORD_RULES",
    "RULES",
    "Sweep",
    "best_record",
    "best_set",
    "best_sets",
    "candidates",
    "finalists",
    "held_out_rows",
    "read_runs",
    "record_scores",
    "select",
    "set_aside",
    "with_averages",
    "worst_group_candidates",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import data frames when they are first used: training does without pandas."""
        if name in _MODULES:
            return getattr(import_module(_MODULES[name]), name)
        raise AttributeError(f"module 'momentalign.selection' has no attribute {name!r}")
