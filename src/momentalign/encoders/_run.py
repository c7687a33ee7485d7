"""Encoders from their configurations, and from the folders of runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from momentalign._model_file import model_path, read_model
from momentalign.encoders._base import Encoder
from momentalign.encoders._networks import MLP, MNIST_CNN, Pixels
from momentalign.encoders._text import HuggingFaceText
from momentalign.encoders._vision import HuggingFaceVision

_PREFIX = "encoder."


ENCODERS: dict[str, type[Encoder]] = {
    kind.kind: kind for kind in (MNIST_CNN, MLP, Pixels, HuggingFaceVision, HuggingFaceText)
}


def encoder_from_config(config: Mapping[str, Any]) -> Encoder:
    """Build an encoder with random weights from its :meth:`Encoder.config`; nothing is downloaded, no code is loaded.

    Example:
        >>> encoder_from_config(MNIST_CNN(2, width=16).config()).num_features
        32
    """
    kind = str(config.get("kind"))
    if kind not in ENCODERS:
        raise ValueError(f"'kind' of an encoder should be one of {', '.join(ENCODERS)}, but is '{kind}'.")
    try:
        return ENCODERS[kind].from_config(config)
    except (KeyError, TypeError) as error:
        raise ValueError(f"The description of a '{kind}' is incomplete or of another version: {error}.") from None


def encoder_from_run(folder: str | Path) -> Encoder:
    """Load the trained encoder of a run.

    Args:
        folder: Folder of a finished `momentalign train`.

    Raises:
        ValueError: The folder has no trained model, or one that does not fit its description.
    """
    folder = Path(folder)
    path = model_path(folder)
    description, weights = read_model(path)
    if not isinstance(description.get("encoder"), dict):
        raise ValueError(f"{path} should describe an 'encoder', but does not.")
    encoder = encoder_from_config(description["encoder"])
    own = {name.removeprefix(_PREFIX): tensor for name, tensor in weights.items() if name.startswith(_PREFIX)}
    try:
        encoder.load_state_dict(own)
    except RuntimeError as error:
        written = description["encoder"].get("transformers")
        hint = f" It was written with transformers {written}." if written else ""
        first = " ".join(str(error).split("\n")[:2]).replace("\t", "")
        raise ValueError(f"The weights in {path} do not fit the encoder that it describes: {first}{hint}") from None
    encoder.source, encoder.notes = str(folder), ()
    if isinstance(encoder, HuggingFaceVision):
        encoder.keep_statistics = True  # pretrained now, even if the run started from random weights
        encoder.train()
    return encoder
