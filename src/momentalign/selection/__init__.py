"""Which run and which step counts: pure functions of the records that runs leave behind.

:func:`read_runs` reads folders of runs, ours or DomainBed's, into a :class:`Sweep` of two data frames; :func:`select`
applies one of :data:`RULES`. Nothing here trains or needs the data.
"""

from momentalign.runs import Sweep, read_runs
from momentalign.selection._rules import RULES, candidates, select, set_aside
from momentalign.selection._worst_group import FINALISTS, best_set, best_sets, finalists, worst_group_candidates

__all__ = [
    "FINALISTS",
    "RULES",
    "Sweep",
    "best_set",
    "best_sets",
    "candidates",
    "finalists",
    "read_runs",
    "select",
    "set_aside",
    "worst_group_candidates",
]
