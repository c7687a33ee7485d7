"""Tables: from a file to a matrix, a linear model that transfers (`probe`), differences of domains (`diagnose`).

:func:`read_table` reads CSV, TSV, parquet and npz files with a label and a domain for each row. :func:`fit_encoder`
learns on training rows how columns become numbers. :func:`plan_probe` and :func:`plan_diagnosis` do both, describe what
they will do and return a plan to run.

Models and measures are imported on first use: reading a table needs no scikit-learn, which takes seconds.
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
from momentalign.tables._sizes import open_npz
from momentalign.tables._table import Table, check_columns, read_table

if TYPE_CHECKING:
    from momentalign.tables._column_shifts import ColumnShift, DomainMap
    from momentalign.tables._diagnosis import DomainDiagnosis, TableDiagnosis, plan_diagnosis
    from momentalign.tables._held_out import TableScores
    from momentalign.tables._model import TableModel, check_model_folder, is_model_folder
    from momentalign.tables._plain_fits import ComparedRows, Estimate, LeftOutScore, PlainFits, RemedyScore
    from momentalign.tables._predict import PredictedRows, predict_file, score_file
    from momentalign.tables._probe import TableProbe, TableResult, write_probe
    from momentalign.tables._probe_plan import plan_probe
    from momentalign.tables._shifts import DomainShift, ShiftTest, class_shares

_MODULES = {
    "ColumnShift": "_column_shifts",
    "ComparedRows": "_plain_fits",
    "DomainDiagnosis": "_diagnosis",
    "DomainMap": "_column_shifts",
    "DomainShift": "_shifts",
    "Estimate": "_plain_fits",
    "LeftOutScore": "_plain_fits",
    "PlainFits": "_plain_fits",
    "PredictedRows": "_predict",
    "RemedyScore": "_plain_fits",
    "ShiftTest": "_shifts",
    "TableDiagnosis": "_diagnosis",
    "TableModel": "_model",
    "TableProbe": "_probe",
    "TableResult": "_probe",
    "TableScores": "_held_out",
    "check_model_folder": "_model",
    "class_shares": "_shifts",
    "is_model_folder": "_model",
    "plan_diagnosis": "_diagnosis",
    "plan_probe": "_probe_plan",
    "predict_file": "_predict",
    "score_file": "_predict",
    "write_probe": "_probe",
}

__all__ = [
    "METADATA_KEY",
    "Column",
    "ColumnShift",
    "ComparedRows",
    "DomainDiagnosis",
    "DomainMap",
    "DomainShift",
    "EncodedRows",
    "Estimate",
    "LeftOutScore",
    "MissingColumnError",
    "PlainFits",
    "PredictedRows",
    "RemedyScore",
    "ShiftTest",
    "Table",
    "TableDiagnosis",
    "TableEncoder",
    "TableModel",
    "TableProbe",
    "TableResult",
    "TableScores",
    "check_columns",
    "check_model_folder",
    "class_shares",
    "encode_classes",
    "encode_rows",
    "encode_targets",
    "fit_encoder",
    "is_model_folder",
    "label_names",
    "open_npz",
    "plan_diagnosis",
    "plan_probe",
    "predict_file",
    "read_frame",
    "read_parquet_metadata",
    "read_table",
    "score_file",
    "write_probe",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
