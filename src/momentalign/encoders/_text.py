"""Text encoders in Hugging Face format: BERT and its like."""

import inspect
from pathlib import Path
from typing import Any

from torch import Tensor

from momentalign.encoders import _huggingface as hf
from momentalign.encoders._base import Encoder
from momentalign.encoders._texts import TextPreprocessing

LENGTH = 128
"""Tokens a row, or a pair of rows, in the paper's MultiNLI experiment."""

_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json")


class HuggingFaceText(Encoder):
    """A text model of the transformers library, read as features.

    The features are the model's pooled output (BERT's, a trained layer over the first token) where the model has one
    with weights, otherwise the first token of the last hidden state.

    Args:
        model: The model.
        preprocessing: Tokenizer and length.
        features: "pooler" or "cls", as above.
        source: What it was built from, as people type it.
        notes: What was assumed, a sentence each.
    """

    preprocessing: TextPreprocessing

    def __init__(
        self,
        model: Any,
        preprocessing: TextPreprocessing,
        features: str = "pooler",
        *,
        source: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        if features not in ("pooler", "cls"):
            raise ValueError(f"'features' should be 'pooler' or 'cls', but is {features!r}.")
        self.model = model.train()
        self.preprocessing, self.features, self.source, self.notes = preprocessing, features, source, notes
        self.num_features = int(model.config.hidden_size)
        takes = inspect.signature(model.forward).parameters
        # Some models have one kind of token only, and a table of embeddings for that one.
        self._sentences = "token_type_ids" in takes and getattr(model.config, "type_vocab_size", 0) > 1
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(features == "pooler" or not name.startswith("pooler."))

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the features of a batch.

        Args:
            inputs: Tokens, sentence numbers and attention mask, integers of shape (n, 3, length).

        Returns:
            Features, shape (n, num_features).
        """
        tokens, sentences, mask = inputs.long().unbind(1)
        more = {"token_type_ids": sentences} if self._sentences else {}
        output = self.model(input_ids=tokens, attention_mask=mask, return_dict=True, **more)
        features: Tensor = output.pooler_output if self.features == "pooler" else output.last_hidden_state[:, 0]
        return features

    def config(self) -> dict[str, Any]:
        """Describe architecture and preprocessing, in values that JSON can hold."""
        return {
            "kind": "huggingface-text",
            "source": self.source,
            "features": self.features,
            "num_features": self.num_features,
            "architecture": hf.architecture_to_dict(self.model.config),
            "preprocessing": self.preprocessing.config(),
            "transformers": hf.transformers().__version__,
        }


def text_from_folder(
    folder: Path, architecture: Any, *, weights: bool = True, source: str = "", length: int = LENGTH
) -> HuggingFaceText:
    """Read a text encoder from a folder in Hugging Face format.

    Args:
        folder: With `config.json`, the tokenizer's files, and as a rule `model.safetensors`.
        architecture: What `config.json` says.
        weights: Whether to load the weights; they are random otherwise.
        source: What people typed.
        length: Tokens a row; fewer where the model has fewer positions.

    Returns:
        The encoder.

    Raises:
        ValueError: No encoder of texts.
    """
    if getattr(architecture, "is_encoder_decoder", False) or not hasattr(architecture, "hidden_size"):
        raise ValueError(
            f"{folder} holds a model of type '{architecture.model_type}', which is no encoder of texts such as BERT."
        )
    preprocessing = _read_tokenizer(folder, min(length, getattr(architecture, "max_position_embeddings", length)))
    if not weights:
        model = random_text_model(architecture)
        features = "pooler" if _has_pooler(model) else "cls"
        notes = ("The encoder's weights are random.",)
        return HuggingFaceText(model, preprocessing, features, source=source, notes=notes)
    model, missing = hf.load_pretrained(hf.transformers().AutoModel, folder, architecture, trust_remote_code=False)
    pooler = frozenset(name for name in missing if name.startswith("pooler."))
    hf.check_complete(folder, missing - pooler)
    if _has_pooler(model) and not pooler:
        return HuggingFaceText(model, preprocessing, source=source)
    notes = ("The features are the first token's: the weights have no pooled output.",)
    return HuggingFaceText(model, preprocessing, "cls", source=source, notes=notes)


def text_from_config(config: dict[str, Any]) -> HuggingFaceText:
    """Build a text encoder with random weights from what :meth:`HuggingFaceText.config` gave."""
    architecture = hf.architecture_from_dict(config["architecture"], "The encoder's configuration")
    stored = config["preprocessing"]
    number, name = stored["padding"]
    preprocessing = TextPreprocessing(stored["tokenizer"], (number, name), stored["length"])
    model = random_text_model(architecture)
    return HuggingFaceText(model, preprocessing, config["features"], source=config["source"])


def random_text_model(architecture: Any) -> Any:
    """Build a text model with random weights in single precision."""
    try:
        with hf.quiet():
            return hf.transformers().AutoModel.from_config(architecture, trust_remote_code=False).float()
    except (ValueError, RuntimeError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"A model of type '{architecture.model_type}' cannot be built: {reason}") from None


def _has_pooler(model: Any) -> bool:
    return getattr(model, "pooler", None) is not None


def _read_tokenizer(folder: Path, length: int) -> TextPreprocessing:
    """The tokenizer of a folder, whatever files it is in."""
    if not any((folder / name).is_file() for name in _VOCABULARIES):  # the library would make an empty one
        raise ValueError(
            f"{folder} should have a tokenizer beside the model, but has none of {', '.join(_VOCABULARIES)}."
        )
    try:
        with hf.quiet():
            tokenizer = hf.transformers().AutoTokenizer.from_pretrained(
                str(folder), use_fast=True, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:  # the library raises what its parts raise: OSError, ValueError, ImportError, KeyError
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{folder} should have a tokenizer beside the model, but it cannot be read: {reason}"
        ) from None
    if not tokenizer.is_fast or tokenizer.pad_token is None:
        wanted = "a padding token" if tokenizer.is_fast else "a form that needs no Python code (tokenizer.json)"
        raise ValueError(f"The tokenizer in {folder} should have {wanted}, but has not.")
    padding = (int(tokenizer.pad_token_id), str(tokenizer.pad_token))
    return TextPreprocessing(tokenizer.backend_tokenizer.to_str(), padding, length)
