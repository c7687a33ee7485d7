"""What the command `probe` writes, and what it predicts for new rows."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from momentalign._files import atomic_write, check_output, check_writable
from momentalign.data import read_frame
from momentalign.data._columns import said_of
from momentalign.probing._model import ABOUT, KIND, ProbeModel
from momentalign.probing._table_probe import TableResult

SCORES = "scores.csv"


def check_folder(out: Path) -> None:
    """Refuse a place that no model can be written to, before any work is done.

    Args:
        out: The folder.

    Raises:
        ValueError: A file, something in a file, or a folder that holds something else.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"'--out' should name a folder, but {out} is a file.")
    check_writable(out)
    if out.is_dir() and any(out.iterdir()):
        about = out / ABOUT
        if not about.is_file() or KIND not in about.read_text(encoding="utf-8", errors="replace"):
            raise ValueError(f"{out} holds something that is no probe. Name a new or an empty folder.")


def write_probe(result: TableResult, out: Path) -> None:
    """Write scores and model; the model's description comes last, so that a folder that has one is whole."""
    out.mkdir(parents=True, exist_ok=True)
    atomic_write(out / SCORES, result.scores.to_csv())
    result.model.save(out)


@dataclass(frozen=True)
class Predictions:
    """How many rows were answered, and what to say of them."""

    rows: int
    notes: tuple[str, ...]


def predict_file(model: ProbeModel, path: str | Path, out: Path) -> Predictions:
    """Predict the rows of a file, in their order.

    The answer is in the column `predicted`, and for classes the probabilities in columns `p_…`. A column `file` is
    carried over.

    Args:
        model: Of :meth:`ProbeModel.load`.
        path: A .csv, .csv.gz, .parquet or .npz file with the model's columns.
        out: A .csv or .parquet file.

    Returns:
        What was done.

    Raises:
        ValueError: The file lacks a column, or `out` cannot be written to.
    """
    import pandas

    check_output(out, (".csv", ".parquet"), inputs=[Path(path)])
    target = str(model.about.get("target", "y"))
    frame = read_frame(path, [target, "file"])
    logits, encoded = model.logits(frame)
    answers: dict[str, object] = {"file": frame["file"].to_numpy()} if "file" in frame.columns else {}
    if model.classes is None:
        answers["predicted"] = logits[:, 0]
    else:
        probabilities = model.probabilities(logits)
        answers["predicted"] = np.array(model.classes)[probabilities.argmax(1)]
        answers |= {f"p_{name}": probabilities[:, place] for place, name in enumerate(model.classes)}
    predicted = pandas.DataFrame(answers)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".csv":
        atomic_write(out, predicted.to_csv(index=False))
    else:
        atomic_write(out, predicted.to_parquet(index=False))
    return Predictions(len(frame), tuple(said_of(encoded, Path(path).name)))
