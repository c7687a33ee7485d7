"""A trained network with its preprocessing, which predicts classes by name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from momentalign._errors import first_line
from momentalign._model_file import MODEL
from momentalign.algorithms import Network
from momentalign.data import Items
from momentalign.encoders import Preprocessing, encoder_from_config
from momentalign.runs import read_run
from momentalign.tables import TableModel, is_model_folder
from momentalign.training._checkpoint import read_weights
from momentalign.training._data import DatasetRows


class Predictor(nn.Module):
    """A trained network with its preprocessing and the names of its classes, in evaluation mode.

    Args:
        network: What was trained.
        preprocessing: Of its encoder.
        classes: Names of the classes, in the order of the logits.
    """

    def __init__(self, network: Network, preprocessing: Preprocessing, classes: Sequence[str]) -> None:
        super().__init__()
        self.network, self.preprocessing, self.classes = network, preprocessing, tuple(classes)
        self.eval()

    def forward(self, raw: Tensor) -> Tensor:
        """Compute logits.

        Args:
            raw: Rows as they are before the encoder's preprocessing: images as bytes (n, 3, height, width), digits
                as numbers (n, channels, height, width), rows of numbers (n, d), or tokens (n, 3, length). Of a
                table these are the numbers of the columns that were learned; :meth:`predict` takes a data frame.

        Returns:
            Logits, shape (n, C).
        """
        return self.features_and_logits(raw)[1]

    def features_and_logits(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Compute input and output of the linear head.

        Args:
            raw: As for :meth:`forward`.

        Returns:
            Features, shape (n, d), and logits, shape (n, C).
        """
        if not isinstance(raw, Tensor):
            raise TypeError(f"The network takes tensors, but got a {type(raw).__name__}. Use predict().")
        inputs = self.preprocessing.to_inputs(raw)
        if inputs.is_floating_point():
            inputs = inputs.to(next(self.parameters()).dtype)
        outputs: tuple[Tensor, Tensor] = self.network(inputs)
        return outputs

    @torch.no_grad()
    def predict(self, inputs: Any, *, batch_size: int | None = None) -> list[str]:
        """Name the class of each row.

        Args:
            inputs: A tensor as for :meth:`forward`, items of a data set, paths of images, sentences, or a data frame
                with the columns of the table that was trained on, in any order.
            batch_size: Rows at a time; None for a default by kind of rows and device.

        Returns:
            Names of classes, n of them.
        """
        if isinstance(inputs, str | Path):
            raise TypeError(f"'inputs' should be a list, but is one string or path. Write [{str(inputs)!r}].")
        if not len(inputs):
            return []
        raw = self.preprocessing.open(
            inputs if isinstance(inputs, Tensor | Items) else self.preprocessing.coerce(inputs)
        )
        device = next(self.parameters()).device
        rows = DatasetRows(raw, torch.zeros(len(inputs), dtype=torch.long, device=device), None, {})
        names: list[str] = []
        for indices in torch.arange(len(inputs)).split(batch_size or rows.evaluation_batch):
            read = raw[indices] if isinstance(raw, Tensor) else next(rows.read([indices], 0))[1]
            names += [self.classes[k] for k in self(read.to(device)).argmax(1).tolist()]
        return names


def load_model(folder: str | Path) -> Predictor | TableModel:
    """Load the network of a run, or the linear model of `momentalign probe` or of a run of the probing protocol.

    Args:
        folder: Folder of a run or of a model.

    Raises:
        ValueError: The folder is neither, or has no weights.
    """
    return TableModel.load(folder) if is_linear_model(folder) else load_run(folder)


def is_linear_model(folder: str | Path) -> bool:
    """Whether a folder holds a linear model rather than the network of a run; raises ValueError if it holds neither."""
    folder = Path(folder)
    if (folder / "run.json").exists():
        return bool(read_run(folder)["config"].get("setting") == "probe")
    if is_model_folder(folder):
        return True
    found = "is a file" if folder.is_file() else f"has neither run.json nor {MODEL}"
    if not folder.exists():
        found = "does not exist"
    elif inner := sorted({path.parent for name in ("run.json", MODEL) for path in folder.glob(f"*/{name}")}):
        found = f"is the parent of {len(inner)} such. Name one of them, for instance {inner[0]}"
    raise ValueError(
        f"{folder} should be the folder of a run ('momentalign train') or of a model ('momentalign probe'), but "
        f"{found}."
    )


def load_run(folder: str | Path) -> Predictor:
    """Load the network of a run. Reads weights and a description, and runs no code from the folder.

    Args:
        folder: Folder of a run, finished or with a checkpoint.

    Returns:
        The network with its preprocessing, on the host, in evaluation mode.

    Raises:
        ValueError: The folder is not a run, or has no weights.
    """
    folder = Path(folder)
    read_run(folder)
    description, weights = read_weights(folder)
    try:
        encoder = encoder_from_config(description["encoder"])
        classes = description["classes"]
        network = Network(encoder, encoder.num_features, len(classes))
        network.load_state_dict(weights)
    except (KeyError, RuntimeError) as error:
        reason = first_line(error)
        raise ValueError(f"The weights in {folder} do not fit their description ({reason}). Train again.") from None
    return Predictor(network, encoder.preprocessing, classes)
