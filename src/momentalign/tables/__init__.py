"""Tables: from a file to a matrix, a linear model that transfers (`probe`), differences of domains (`diagnose`).

:func:`read_table` reads CSV, parquet and npz files with a label and a domain for each row. :func:`fit_encoder` learns
on training rows how columns become numbers. :func:`plan_probe` and :func:`plan_diagnosis` do both, describe what they
will do and return a plan to run.
"""

from momentalign.tables._column_shifts import ColumnShift, DomainMap
from momentalign.tables._columns import Column, EncodedRows, TableEncoder, encode_rows, fit_encoder
from momentalign.tables._diagnosis import DomainDiagnosis, TableDiagnosis, plan_diagnosis
from momentalign.tables._files import (
    METADATA_KEY,
    TABLE_SUFFIXES,
    MissingColumnError,
    read_frame,
    read_parquet_metadata,
)
from momentalign.tables._held_out import TableScores
from momentalign.tables._labels import encode_classes, encode_targets, label_names
from momentalign.tables._model import TableModel, check_model_folder
from momentalign.tables._plain_fits import ComparedRows, Estimate, LeftOutScore, PlainFits, RemedyScore
from momentalign.tables._predict import PredictedRows, predict_file
from momentalign.tables._probe import TableProbe, TableResult, plan_probe, write_probe
from momentalign.tables._shifts import DomainShift, ShiftTest, class_shares
from momentalign.tables._table import Table, read_table

__all__ = [
    "METADATA_KEY",
    "TABLE_SUFFIXES",
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
    "check_model_folder",
    "class_shares",
    "encode_classes",
    "encode_rows",
    "encode_targets",
    "fit_encoder",
    "label_names",
    "plan_diagnosis",
    "plan_probe",
    "predict_file",
    "read_frame",
    "read_parquet_metadata",
    "read_table",
    "write_probe",
]
