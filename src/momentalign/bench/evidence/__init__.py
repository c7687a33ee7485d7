"""What alignment is worth on real tables: leave-one-domain-out over seeds, every method on the same rows.

`python -m momentalign.bench.evidence --out FILE` measures, goes on where it was interrupted, and prints the tables of
docs/probing.md.
"""

from momentalign.bench.evidence._cells import Cell, plan, run_cells
from momentalign.bench.evidence._sets import SETS, Rows, read_set
from momentalign.bench.evidence._tables import tables

__all__ = ["SETS", "Cell", "Rows", "plan", "read_set", "run_cells", "tables"]
