"""Which run and which step counts: functions of the records that runs leave behind.

:func:`read_runs` turns folders of runs, ours or DomainBed's, into a :class:`Sweep` of two frames; :func:`select` picks
by one of :data:`RULES`. Nothing here trains, and nothing needs the data.
"""

from momentalign.runs import Sweep, read_runs
from momentalign.selection._select import RULES, candidates, select, set_aside
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
