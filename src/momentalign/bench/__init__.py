"""Speed and memory: ratios within one run, so that they mean the same on another machine."""

from momentalign.bench._rows import Row, environment
from momentalign.bench._run import Section, plan
from momentalign.bench._table import as_table, write_json

__all__ = ["Row", "Section", "as_table", "environment", "plan", "write_json"]
