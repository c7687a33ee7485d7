"""Result tables, the report page of a sweep and the page of a diagnosis.

Names are imported on first use: tables need pandas only, pages also the packages of the charts.
"""

from typing import TYPE_CHECKING, Any

from momentalign._extras import require

if TYPE_CHECKING:
    from momentalign.report._accuracy_table import accuracy_table
    from momentalign.report._chosen import chosen_table
    from momentalign.report._comparison import PairedDifference, paired_differences
    from momentalign.report._diagnosis_page import write_diagnosis
    from momentalign.report._escape import escape_markdown, markdown_table
    from momentalign.report._names import algorithm_label
    from momentalign.report._page import write_report
    from momentalign.report._table import ResultCell, ResultRow, ResultTable, TableSection

_MODULES = {
    "_accuracy_table": ("accuracy_table",),
    "_chosen": ("chosen_table",),
    "_comparison": ("PairedDifference", "paired_differences"),
    "_diagnosis_page": ("write_diagnosis",),
    "_escape": ("escape_markdown", "markdown_table"),
    "_names": ("algorithm_label",),
    "_page": ("write_report",),
    "_table": ("ResultCell", "ResultRow", "ResultTable", "TableSection"),
}
"""Names by the private module that defines them."""

__all__ = [
    "PairedDifference",
    "ResultCell",
    "ResultRow",
    "ResultTable",
    "TableSection",
    "accuracy_table",
    "algorithm_label",
    "chosen_table",
    "escape_markdown",
    "markdown_table",
    "paired_differences",
    "write_diagnosis",
    "write_report",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(require(f"{__name__}.{module}", "Reports need", extra="cli,report"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
