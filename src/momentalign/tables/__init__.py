"""Tables: from a file to a matrix, a linear model that transfers (`probe`), differences of domains (`diagnose`).

:func:`read_table` reads CSV, TSV, parquet and npz files with a label and a domain for each row. :func:`fit_encoder`
learns on training rows how columns become numbers. :func:`plan_probe` and :func:`plan_diagnosis` do both, describe what
they will do and return a plan to run.

Models and measures are imported on first use: reading a table does not wait for scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from momentalign.tables._columns import Column, EncodedRows, TableEncoder, encode_rows, fit_encoder
from momentalign.tables._files import (
    METADATA_KEY,
    MissingColumnError,
    read_frame,
    read_parquet_metadata,
)
from momentalign.tables._labels import encode_classes, encode_targets, label_names
from momentalign.tables._table import Table, read_table

if TYPE_CHECKING:
    from momentalign.tables._column_shifts import ColumnShift
    from momentalign.tables._diagnosis import DomainDiagnosis, TableDiagnosis, plan_diagnosis
    from momentalign.tables._findings import ShiftKind, shift_kinds
    from momentalign.tables._held_out import TableScores, measure_groups
    from momentalign.tables._model import TableModel, check_model_folder, is_model_folder
    from momentalign.tables._plain_fits import ComparedRows, Estimate, LeftOutScore, PlainFits, RemedyScore
    from momentalign.tables._predict import PredictedRows, predict_file, score_file
    from momentalign.tables._probe import TableProbe, TableResult, write_probe
    from momentalign.tables._probe_plan import plan_probe
    from momentalign.tables._shifts import DomainShift, ShiftTest, class_shares

_MODULES = {
    "_column_shifts": ("ColumnShift",),
    "_diagnosis": ("DomainDiagnosis", "TableDiagnosis", "plan_diagnosis"),
    "_findings": ("ShiftKind", "shift_kinds"),
    "_held_out": ("TableScores", "measure_groups"),
    "_model": ("TableModel", "check_model_folder", "is_model_folder"),
    "_plain_fits": ("ComparedRows", "Estimate", "LeftOutScore", "PlainFits", "RemedyScore"),
    "_predict": ("PredictedRows", "predict_file", "score_file"),
    "_probe": ("TableProbe", "TableResult", "write_probe"),
    "_probe_plan": ("plan_probe",),
    "_shifts": ("DomainShift", "ShiftTest", "class_shares"),
}
"""Names by the private module that defines them."""

__all__ = [
    "METADATA_KEY",
    "Column",
    "ColumnShift",
    "ComparedRows",
    "DomainDiagnosis",
    "DomainShift",
    "EncodedRows",
    "Estimate",
    "LeftOutScore",
    "MissingColumnError",
    "PlainFits",
    "PredictedRows",
    "RemedyScore",
    "ShiftKind",
    "ShiftTest",
    "Table",
    "TableDiagnosis",
    "TableEncoder",
    "TableModel",
    "TableProbe",
    "TableResult",
    "TableScores",
    "check_model_folder",
    "class_shares",
    "encode_classes",
    "encode_rows",
    "encode_targets",
    "fit_encoder",
    "is_model_folder",
    "label_names",
    "measure_groups",
    "plan_diagnosis",
    "plan_probe",
    "predict_file",
    "read_frame",
    "read_parquet_metadata",
    "read_table",
    "score_file",
    "shift_kinds",
    "write_probe",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
