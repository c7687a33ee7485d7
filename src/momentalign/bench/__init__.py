"""Speed and memory: ratios within one run, so that they mean the same on another machine."""

from momentalign.bench._paper_table import paper_plan, paper_table
from momentalign.bench._probing_grid import probing_plan
from momentalign.bench._rows import Row, environment
from momentalign.bench._run import Section, plan
from momentalign.bench._sweeps import sweep_plan
from momentalign.bench._table import as_table, write_json
from momentalign.bench._training import training_plan

__all__ = [
    "Row",
    "Section",
    "as_table",
    "environment",
    "paper_plan",
    "paper_table",
    "plan",
    "probing_plan",
    "sweep_plan",
    "training_plan",
    "write_json",
]
