"""The paper's numbers, to stand beside ours in tables, recipes and benchmarks."""

from momentalign.published._accuracy import (
    AVERAGE,
    WORST_GROUP,
    Published,
    published_accuracy,
    published_averages,
    published_probing,
)
from momentalign.published._costs import BEST_PROBES, published_costs

__all__ = [
    "AVERAGE",
    "BEST_PROBES",
    "WORST_GROUP",
    "Published",
    "published_accuracy",
    "published_averages",
    "published_costs",
    "published_probing",
]
