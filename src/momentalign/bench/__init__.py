"""Time and memory of the package; ratios are within one run, so that they carry over to other machines."""

from momentalign.bench._linear import probing_plan
from momentalign.bench._paper_table import paper_plan, paper_table
from momentalign.bench._results import BenchmarkGroup, BenchmarkRow, benchmark_tables, environment, write_benchmark
from momentalign.bench._standard import standard_plan
from momentalign.bench._sweeps import sweep_plan
from momentalign.bench._training import training_plan

__all__ = [
    "BenchmarkGroup",
    "BenchmarkRow",
    "benchmark_tables",
    "environment",
    "paper_plan",
    "paper_table",
    "probing_plan",
    "standard_plan",
    "sweep_plan",
    "training_plan",
    "write_benchmark",
]
