"""Tables and the page of a sweep.

Names are imported when they are used, so that tables need pandas only and the page alone needs the charts' packages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from momentalign.report._page import write_report
    from momentalign.report._table import Cell, Row, Section, Table
    from momentalign.report._tables import accuracy_table

_HOMES = {
    "Cell": "_table",
    "Row": "_table",
    "Section": "_table",
    "Table": "_table",
    "accuracy_table": "_tables",
    "write_report": "_page",
}

__all__ = ["Cell", "Row", "Section", "Table", "accuracy_table", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
