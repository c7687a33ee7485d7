"""Result tables, the report page of a sweep and the page of a diagnosis.

Names are imported on first use: tables need pandas only, pages also the packages of the charts.
"""

from typing import TYPE_CHECKING, Any

from momentalign._extras import require

if TYPE_CHECKING:
    from momentalign.report._accuracy_table import accuracy_table
    from momentalign.report._comparison import PairedDifference, paired_differences
    from momentalign.report._diagnosis_page import write_diagnosis
    from momentalign.report._escape import escape_markdown
    from momentalign.report._names import algorithm_label
    from momentalign.report._page import write_report
    from momentalign.report._table import ResultCell, ResultRow, ResultTable, TableSection

_MODULES = {
    "PairedDifference": "_comparison",
    "ResultCell": "_table",
    "ResultRow": "_table",
    "ResultTable": "_table",
    "TableSection": "_table",
    "accuracy_table": "_accuracy_table",
    "algorithm_label": "_names",
    "escape_markdown": "_escape",
    "paired_differences": "_comparison",
    "write_diagnosis": "_diagnosis_page",
    "write_report": "_page",
}

__all__ = [
    "PairedDifference",
    "ResultCell",
    "ResultRow",
    "ResultTable",
    "TableSection",
    "accuracy_table",
    "algorithm_label",
    "escape_markdown",
    "paired_differences",
    "write_diagnosis",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(require(f"{__name__}.{_MODULES[name]}", "Reports need", extra="cli,report"), name)
