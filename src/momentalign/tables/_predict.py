"""Predict the rows of a file with a saved model, and score them where they have labels."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentalign._csv import frame_csv
from momentalign._format import join_first, pluralize
from momentalign._outputs import check_output, write_output
from momentalign._table_spec import inherit_spec, split_spec, table_spec
from momentalign._types import Array
from momentalign.sklearn import GroupReport
from momentalign.tables._files import MissingColumnError, read_frame
from momentalign.tables._held_out import TableScores, measure_groups, score_predictions
from momentalign.tables._labels import encode_targets, label_names, name_indices
from momentalign.tables._model import READING, SOURCE, TableModel

_KEPT = ("id", "file")
_MODEL = "model"


class PredictedRows(NamedTuple):
    """Result of :func:`predict_file`.

    Args:
        rows: Number of rows.
        notes: On their values, one sentence each.
        scores: Of the rows that have a label, by domain and group; None where none has one.
        copied: Names of the columns that were copied.
    """

    rows: int
    notes: list[str]
    scores: TableScores | None
    copied: tuple[str, ...]


def predict_file(
    model: TableModel, path: str | Path, out: Path, *, id_column: str | None = None, **reading: str | None
) -> PredictedRows:
    """Predict the rows of a file, in order.

    Writes a column `predicted` and, for classes, their probabilities in columns `p_…`. Columns `id` and `file`, and
    the one named by `id_column`, are copied. Rows with a label in the model's target column are scored.

    Args:
        model: From :meth:`TableModel.load`.
        path: A table with the model's columns.
        out: A .csv or .parquet file.
        id_column: A column to copy.
        **reading: How to read the file, see :func:`read_table`; by default as the table that the model was fitted on.

    Raises:
        ValueError: The file lacks a column or has no rows, or `out` cannot be written.
    """
    import pandas

    kept = [*_KEPT, *([id_column] if id_column else [])]
    rows = _Rows.read(model, path, kept, reading)
    check_output(out, (".csv", ".parquet"), inputs=[rows.path])
    if id_column is not None and id_column not in rows.frame.columns:
        raise MissingColumnError({"id": id_column}, rows.frame.columns, rows.path)
    logits, encoded = model.logits(rows.frame)
    columns: dict[str, object] = {name: rows.frame[name].to_numpy() for name in kept if name in rows.frame.columns}
    more: dict[str, Array] = {}
    if model.classes is not None:
        probabilities = model.probabilities(logits)
        more = {f"p_{name}": probabilities[:, index] for index, name in enumerate(model.classes)}
    if taken := {"predicted", *more} & set(columns):
        raise ValueError(f"The column to copy should have another name than the predictions, but is '{min(taken)}'.")
    table = pandas.DataFrame({**columns, "predicted": model.decide(logits), **more})
    scores, notes = rows.score(model, logits)
    write_output(out, frame_csv(table) if out.suffix == ".csv" else table.to_parquet(index=False))
    return PredictedRows(len(rows.frame), [*encoded.describe(rows.path.name), *notes], scores, tuple(columns))


def score_file(model: TableModel, path: str | Path, **reading: str | None) -> tuple[TableScores, list[str]]:
    """Score a model on the rows of a file that have a label; also returns notes, one sentence each.

    Args:
        model: From :meth:`TableModel.load`.
        path: A table with the model's columns and its target.
        **reading: How to read the file, see :func:`read_table`; by default as the table that the model was fitted on.

    Raises:
        ValueError: The file lacks a column, or has no rows with a label.
    """
    rows = _Rows.read(model, path, (), reading)
    if rows.columns["target"] not in rows.frame.columns:
        raise MissingColumnError({"target": rows.columns["target"]}, rows.frame.columns, rows.path)
    logits, encoded = model.logits(rows.frame)
    scores, notes = rows.score(model, logits)
    if scores is None:
        raise ValueError(" ".join(notes) or f"{rows.path.name} should have rows with a label, but has none.")
    return scores, [*encoded.describe(rows.path.name), *notes]


class _Rows(NamedTuple):
    """Rows of a file, and the names of its columns by target, domain and group."""

    path: Path
    frame: Any
    columns: Mapping[str, str]

    @classmethod
    def read(cls, model: TableModel, path: str | Path, kept: Any, reading: Mapping[str, str | None]) -> "_Rows":
        """Read a file with the options of the model's table, unless others are given."""
        about = {name: model.about.get(name) for name in ("target", "domain")}
        about |= {"group": model.about.get(SOURCE, {}).get("group"), **model.about.get(READING, {})}
        given = {option: value for option, value in about.items() if isinstance(value, str)}
        name, options = split_spec(inherit_spec(table_spec(path, **reading), given))
        columns = {"target": "y", "domain": "domain", "group": "group"}
        columns |= {option: options[option] for option in columns if option in options}
        file = Path(name).expanduser()
        frame = read_frame(
            file,
            [*columns.values(), *kept],
            text_columns=[columns["domain"], columns["group"]],
            sep=options.get("sep"),
            encoding=options.get("encoding"),
        )
        if not len(frame):
            raise ValueError(f"{file.name} should have rows to predict, but has none.")
        return cls(file, frame, columns)

    def score(self, model: TableModel, logits: Array) -> tuple[TableScores | None, list[str]]:
        """Scores of the rows that have a label, by domain and group if the file has them, and notes on the labels."""
        target = self.columns["target"]
        if target not in self.frame.columns or not self.frame[target].notna().any():
            return None, []
        known = self.frame[target].notna().to_numpy()
        labels = name_indices(self.frame.loc[known, target].to_numpy(), self.frame.attrs.get("names", {}).get(target))
        notes = [] if known.all() else [f"{pluralize(int((~known).sum()), 'row')} without '{target}' not scored."]
        reports: dict[str, GroupReport] = {}
        if model.classes is None:
            try:
                _, truth = encode_targets(labels, "regression", column_name=target)
            except ValueError as error:
                return None, [f"The rows were not scored. {error}"]
        else:
            truth = label_names(labels)
            unknown = sorted(set(truth.tolist()) - set(model.classes))
            if unknown:
                notes.append(f"Labels that the model does not know count as wrong: {join_first(unknown)}.")
            groups = self._names("group", known)
            if groups is not None and not unknown:
                codes = np.array([model.classes.index(label) for label in truth.tolist()])
                report = measure_groups(codes, model.probabilities(logits[known]), groups)
                reports[_MODEL] = replace(report, notes=())  # on the weighted average, which needs the training rows
        domains = self._names("domain", known)
        scores = score_predictions(
            truth,
            {_MODEL: model.decide(logits[known])},
            np.full(int(known.sum()), "all rows") if domains is None else domains,
            reports,
            classify=model.classes is not None,
        )
        return scores, notes

    def _names(self, option: str, known: NDArray[np.bool_]) -> NDArray[np.str_] | None:
        """Domains or groups of some rows, None where the file does not have them all."""
        column = self.columns[option]
        if column not in self.frame.columns or not self.frame.loc[known, column].notna().all():
            return None
        return label_names(
            name_indices(self.frame.loc[known, column].to_numpy(), self.frame.attrs.get("names", {}).get(column))
        )
