"""Selection of a run and a step: pure functions of the records of runs.

:func:`read_runs` reads folders of runs, ours or DomainBed's, into a :class:`Sweep` of two data frames; :func:`select`
applies one of :data:`RULES`. Nothing here trains or needs the data. :func:`record_scores` scores the records of one run
and needs no data frames: training uses it to choose the weights to keep.
"""

from momentalign.runs import Sweep, read_runs
from momentalign.selection._accuracies import held_out_rows
from momentalign.selection._averages import with_averages
from momentalign.selection._rules import RULES, candidates, select, set_aside
from momentalign.selection._scores import REACH, RECORD_RULES, best_record, record_scores
from momentalign.selection._worst_group import (
    FINALISTS,
    GROUP_RULES,
    choose_sets,
    finalists,
    worst_group_candidates,
)

__all__ = [
    "FINALISTS",
    "GROUP_RULES",
    "REACH",
    "RECORD_RULES",
    "RULES",
    "Sweep",
    "best_record",
    "candidates",
    "choose_sets",
    "finalists",
    "held_out_rows",
    "read_runs",
    "record_scores",
    "select",
    "set_aside",
    "with_averages",
    "worst_group_candidates",
]
