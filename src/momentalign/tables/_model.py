"""A linear model with its table encoder, saved as safetensors and JSON, which load without running code."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from momentalign._files import atomic_write, file_digest, is_leftover
from momentalign._model_file import MODEL, DamagedModelError, read_about, read_model, write_model
from momentalign._outputs import check_folder, check_writable
from momentalign._types import Array
from momentalign.tables._columns import Column, EncodedRows, TableEncoder, check_shape

_KIND = "momentalign probe"
SOURCE = "source"
"""Key of what a model was fitted on: table, columns and options."""
READING = "reading"
"""Key of the separator and the encoding of the file, where they were given."""


@dataclass(frozen=True, eq=False)
class TableModel:
    """A linear model of table rows, as `momentalign probe` fits and saves it.

    Args:
        encoder: Rows to features, (n, k).
        coef: Shape (o, k): one row a class, a single row for two classes or a regression.
        intercept: Shape (o,).
        classes: Class names; None for a regression.
        about: What else is stored: target and domain columns, chosen weights.
    """

    encoder: TableEncoder
    coef: Array
    intercept: Array
    classes: tuple[str, ...] | None
    about: dict[str, Any] = field(default_factory=dict)

    def logits(self, frame: Any) -> tuple[Array, EncodedRows]:
        """Output of the linear model for rows of a data frame, shape (n, o), and the encoded rows."""
        encoded = self.encoder.encode(frame)
        return self.logits_of(encoded.matrix), encoded

    def logits_of(self, numbers: Array) -> Array:
        """Output of the linear model for encoded rows, (n, D) to (n, o)."""
        logits: Array = self.encoder.transform(numbers) @ self.coef.T + self.intercept
        return logits

    def probabilities(self, logits: Array) -> Array:
        """Class probabilities, shape (n, C)."""
        if logits.shape[1] == 1:
            return np.hstack([expit(-logits), expit(logits)])
        probabilities: Array = softmax(logits, axis=1)
        return probabilities

    def decide(self, logits: Array) -> NDArray[Any]:
        """Class names, or numbers, for outputs of the linear model: (n, o) to (n,)."""
        if self.classes is None:
            return logits[:, 0]
        names: NDArray[Any] = np.array(self.classes)[self.probabilities(logits).argmax(1)]
        return names

    def predict(self, frame: Any) -> NDArray[Any]:
        """Class names, or numbers, for rows of a data frame with the columns of the table, in any order; shape (n,)."""
        return self.decide(self.logits(frame)[0])

    def fitted_on(self, path: str | Path) -> bool:
        """Whether the model was fitted to rows of a file, by the file's content."""
        digest = self.about.get(SOURCE, {}).get("table")
        return digest is not None and digest == file_digest(Path(path).expanduser())

    def save(self, folder: Path, more: Mapping[str, str] | None = None) -> None:
        """Write `model.safetensors`, after `more` text files by name."""
        encoder = self.encoder
        arrays = {"mean": encoder.mean, "scale": encoder.scale, "coef": self.coef, "intercept": self.intercept}
        if encoder.matrix is not None:
            arrays["matrix"] = encoder.matrix
        content = {
            "kind": _KIND,
            "classes": None if self.classes is None else list(self.classes),
            "columns": [asdict(column) for column in encoder.columns],
            **self.about,
        }
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (more or {}).items():
            atomic_write(folder / name, text)
        write_model(folder / MODEL, {name: np.ascontiguousarray(array) for name, array in arrays.items()}, content)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load a model.

        Args:
            folder: Written by :meth:`save`, or the folder of a run of the probing protocol.

        Raises:
            ValueError: The folder holds no such model, or a damaged one.
        """
        folder = Path(folder)
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise ValueError(f"{folder} should be a folder that 'momentalign probe' wrote, but {what}.")
        content, arrays = read_model(folder / MODEL, "np")
        if content.pop("kind", None) != _KIND:
            raise ValueError(
                f"{folder} should be a model that 'momentalign probe' wrote, but it is something else; 'momentalign "
                "evaluate' takes trained runs as well."
            )
        for name in ("format", "momentalign"):
            content.pop(name)
        try:
            columns = tuple(Column.from_dict(column) for column in content.pop("columns"))
            encoder = TableEncoder(columns, arrays["mean"], arrays["scale"], arrays.get("matrix"))
            classes = content.pop("classes")
            names = None if classes is None else tuple(classes)
            model = cls(encoder, arrays["coef"], arrays["intercept"], names, content)
            outputs = 1 if names is None or len(names) == 2 else len(names)
            check_shape("coef", model.coef, (outputs, encoder.width))
            check_shape("intercept", model.intercept, (outputs,))
        except (KeyError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split()).removesuffix(".")
            raise ValueError(f"{folder / MODEL} is no model that 'momentalign probe' wrote: {reason}.") from None
        return model


def is_model_folder(folder: Path) -> bool:
    """Whether `momentalign probe` wrote a model to a folder."""
    return (folder / MODEL).is_file() and not (folder / "run.json").exists()


def check_model_folder(out: Path) -> None:
    """Refuse an output folder that exists as a file, cannot be written to or holds anything but a model."""
    check_folder(out)
    check_writable(out)
    if out.is_dir() and not all(map(is_leftover, out.iterdir())) and _about(out).get("kind") != _KIND:
        raise ValueError(f"{out} contains files that 'momentalign probe' did not write. Name a new or empty folder.")


def check_same_model(out: Path, source: Mapping[str, Any]) -> None:
    """Refuse an output folder that holds a model of another table or other options than `source`."""
    if not is_model_folder(out):
        return
    stored = _about(out).get(SOURCE, {})
    if stored != source:
        names = [name for name, value in source.items() if stored.get(name) != value] if stored else []
        which = f"with another {' and '.join(names)}" if names else "which is not that of this command"
        raise ValueError(f"{out} holds a model {which}. Name another folder with --out, or give --overwrite.")


def _about(folder: Path) -> dict[str, Any]:
    """Description of a model; empty where there is none, its kind alone where it is damaged."""
    if not is_model_folder(folder):
        return {}
    try:
        return read_about(folder / MODEL)
    except DamagedModelError:
        return {"kind": _KIND}
