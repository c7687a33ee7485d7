"""Which run and which step counts: functions of the records that runs leave behind.

:func:`read_runs` turns folders of runs, ours or DomainBed's, into a :class:`Sweep` of two frames; :func:`select` picks
by one of :data:`RULES`. Nothing here trains, and nothing needs the data.
"""

from momentalign.selection._read import read_runs
from momentalign.selection._select import RULES, candidates, select, set_aside
from momentalign.selection._sweep import Sweep

__all__ = ["RULES", "Sweep", "candidates", "read_runs", "select", "set_aside"]
