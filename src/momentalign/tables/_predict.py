"""Predict the rows of a file with a saved model, and score them where they have labels."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentalign._csv import frame_csv
from momentalign._files import atomic_write, check_output
from momentalign._format import join_first, pluralize
from momentalign.tables._files import MissingColumnError, read_frame
from momentalign.tables._held_out import TableScores, score_predictions
from momentalign.tables._labels import encode_targets, label_names, name_indices
from momentalign.tables._model import TableModel

_KEPT = ("id", "file")
_MODEL = "model"


class PredictedRows(NamedTuple):
    """What :func:`predict_file` did.

    Args:
        rows: Number of rows.
        notes: On their values, one sentence each.
        scores: Of the rows that have a label, by domain; None where none has one.
    """

    rows: int
    notes: list[str]
    scores: TableScores | None


def predict_file(model: TableModel, path: str | Path, out: Path, *, id_column: str | None = None) -> PredictedRows:
    """Predict the rows of a file, in order.

    Writes a column `predicted` and, for classes, their probabilities in columns `p_…`. Columns `id` and `file`, and
    the one named by `id_column`, are copied. Rows with a label in the model's target column are scored.

    Args:
        model: From :meth:`TableModel.load`.
        path: A .csv, .csv.gz, .parquet or .npz file with the model's columns.
        out: A .csv or .parquet file.
        id_column: A column to copy.

    Raises:
        ValueError: The file lacks a column or has no rows, or `out` cannot be written.
    """
    import pandas

    path = Path(path)
    check_output(out, (".csv", ".parquet"), inputs=[path])
    target, domain = (str(model.about.get(key, name)) for key, name in (("target", "y"), ("domain", "domain")))
    kept = [*_KEPT, *([id_column] if id_column else [])]
    frame = read_frame(path, [target, domain, *kept], text_columns=[domain])
    if id_column is not None and id_column not in frame.columns:
        raise MissingColumnError("--id", id_column, frame.columns, path)
    if not len(frame):
        raise ValueError(f"{path.name} should have rows to predict, but has none.")
    logits, encoded = model.logits(frame)
    columns: dict[str, object] = {name: frame[name].to_numpy() for name in kept if name in frame.columns}
    if model.classes is None:
        predicted = logits[:, 0]
        more = {}
    else:
        probabilities = model.probabilities(logits)
        predicted = np.array(model.classes)[probabilities.argmax(1)]
        more = {f"p_{name}": probabilities[:, index] for index, name in enumerate(model.classes)}
    if taken := {"predicted", *more} & set(columns):
        raise ValueError(f"The column to copy should have another name than the predictions, but is '{min(taken)}'.")
    table = pandas.DataFrame({**columns, "predicted": predicted, **more})
    scores, notes = _score(model, frame, predicted, target, domain)
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(out, frame_csv(table) if out.suffix == ".csv" else table.to_parquet(index=False))
    return PredictedRows(len(frame), [*encoded.describe(path.name), *notes], scores)


def _score(
    model: TableModel, frame: Any, predicted: NDArray[Any], target: str, domain: str
) -> tuple[TableScores | None, list[str]]:
    """Scores of the rows that have a label, by domain if the file has it, and notes on the labels."""
    if target not in frame.columns or not frame[target].notna().any():
        return None, []
    known = frame[target].notna().to_numpy()
    names = frame.attrs.get("names", {})
    labels = name_indices(frame.loc[known, target].to_numpy(), names.get(target))
    notes = [] if known.all() else [f"{pluralize(int((~known).sum()), 'row')} without '{target}' not scored."]
    if model.classes is None:
        try:
            _, truth = encode_targets(labels, "regression", column_name=target)
        except ValueError as error:
            return None, [f"The rows were not scored. {error}"]
    else:
        truth = label_names(labels)
        if unknown := sorted(set(truth.tolist()) - set(model.classes)):
            notes.append(f"Labels that the model does not know count as wrong: {join_first(unknown)}.")
    domains = np.full(int(known.sum()), "all rows")
    if domain in frame.columns and frame.loc[known, domain].notna().all():
        domains = label_names(name_indices(frame.loc[known, domain].to_numpy(), names.get(domain)))
    scores = score_predictions(truth, {_MODEL: predicted[known]}, domains, {}, classify=model.classes is not None)
    return scores, notes
