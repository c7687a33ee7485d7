"""A fitted head with everything that comes before it, in files that load without running code."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

import momentalign
from momentalign._extras import require
from momentalign._files import atomic_write
from momentalign.data._columns import Column, Encoded, encode
from momentalign.linear import LinearHead
from momentalign.probing._features import ProbeFeatures

Array = NDArray[np.float64]

FORMAT = 1
KIND = "momentalign probe"
WEIGHTS, ABOUT = "model.safetensors", "model.json"


@dataclass(frozen=True, eq=False)
class ProbeModel:
    """Columns to numbers, numbers to features, features to an answer.

    Args:
        columns: Of the table.
        mean: Subtracted from the numbers, shape (D,).
        scale: Divides them then, shape (D,).
        matrix: Multiplies them then, shape (D, k); None for none.
        coef: Shape (o, k): a row a class, one row for two classes or a number.
        intercept: Shape (o,).
        classes: Names of the classes; None where the answer is a number.
        about: What else is worth knowing: columns of target and domain, weights, versions.
    """

    columns: tuple[Column, ...]
    mean: Array
    scale: Array
    matrix: Array | None
    coef: Array
    intercept: Array
    classes: tuple[str, ...] | None
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_head(cls, features: ProbeFeatures, head: LinearHead) -> Self:
        """The model of a head that the protocol fitted.

        Args:
            features: What it was fitted on.
            head: The head.

        Returns:
            The model.
        """
        projection = features.projection
        columns = tuple(Column(f"x{k}", float(value)) for k, value in enumerate(projection.mean))
        return cls(
            columns,
            projection.mean,
            np.ones_like(projection.mean),
            projection.matrix,
            head.coef,
            head.intercept,
            features.data.classes,
            {"target": "y", "domain": "domain", "isr_class": projection.isr_class},
        )

    def logits(self, frame: Any) -> tuple[Array, Encoded]:
        """What the head says of rows.

        Args:
            frame: Data frame with the model's columns.

        Returns:
            Shape (n, o), and what had to be done to the values.
        """
        encoded = encode(frame, self.columns)
        return self.logits_of(encoded.matrix), encoded

    def logits_of(self, numbers: Array) -> Array:
        """What the head says of rows that are numbers already, shape (n, o)."""
        logits: Array = self.features(numbers) @ self.coef.T + self.intercept
        return logits

    def features(self, numbers: Array) -> Array:
        """What the head sees, shape (n, k)."""
        standard = (numbers - self.mean) / self.scale
        return standard if self.matrix is None else standard @ self.matrix

    def probabilities(self, logits: Array) -> Array:
        """Of the classes, shape (n, C)."""
        if logits.shape[1] == 1:
            return np.hstack([expit(-logits), expit(logits)])
        probabilities: Array = softmax(logits, axis=1)
        return probabilities

    def save(self, folder: Path) -> None:
        """Write `model.safetensors` and `model.json`, each whole or not at all.

        Args:
            folder: Where to; it is made if it does not exist.
        """
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {"mean": self.mean, "scale": self.scale, "coef": self.coef, "intercept": self.intercept}
        if self.matrix is not None:
            arrays["matrix"] = self.matrix
        content = {
            "kind": KIND,
            "format": FORMAT,
            "momentalign": momentalign.__version__,
            "classes": None if self.classes is None else list(self.classes),
            "columns": [asdict(column) for column in self.columns],
            **self.about,
        }
        weights = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        atomic_write(folder / WEIGHTS, _safetensors().save(weights))
        atomic_write(folder / ABOUT, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model.

        Args:
            folder: What :meth:`save` wrote, or the folder of a probe's run.

        Returns:
            The model.

        Raises:
            ValueError: There is no such model.
        """
        folder = Path(folder)
        place = folder if (folder / ABOUT).is_file() else folder / "checkpoint"
        if not (place / ABOUT).is_file() or not (place / WEIGHTS).is_file():
            what = "is a file" if folder.is_file() else f"has no {ABOUT}" if folder.is_dir() else "does not exist"
            raise ValueError(f"{folder} should be a folder that 'momentalign probe' wrote, but {what}.")
        try:
            content = json.loads((place / ABOUT).read_bytes())
            kind, form = content.get("kind"), content.get("format")
            if kind != KIND or form != FORMAT:
                raise ValueError(f"it is of kind {kind!r}, format {form!r}")
            arrays = _safetensors().load((place / WEIGHTS).read_bytes())
            columns = tuple(
                Column(one["name"], one["fill"], None if one["categories"] is None else tuple(one["categories"]))
                for one in content["columns"]
            )
            classes = content["classes"]
            own = ("kind", "format", "momentalign", "classes", "columns")
            model = cls(
                columns,
                arrays["mean"],
                arrays["scale"],
                arrays.get("matrix"),
                arrays["coef"],
                arrays["intercept"],
                None if classes is None else tuple(classes),
                {name: value for name, value in content.items() if name not in own},
            )
            model._check()
        except Exception as error:  # whatever JSON, safetensors or a shape has to say
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"{folder} should be a model that 'momentalign probe' wrote, but: {reason}.") from None
        return model

    def _check(self) -> None:
        width = sum(column.width for column in self.columns)
        inner = width if self.matrix is None else self.matrix.shape[1]
        outputs = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        expected = {"mean": (width,), "scale": (width,), "coef": (outputs, inner), "intercept": (outputs,)}
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"'{name}' should have shape {shape}, but has {getattr(self, name).shape}")


def _safetensors() -> Any:
    return require("safetensors.numpy", "Saved models need", extra="cli")
