"""Text encoders in Hugging Face format, BERT and similar, and their tokenizers."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentalign._errors import first_line
from momentalign._extras import require
from momentalign._validation import check_choice
from momentalign.data import Items, Texts
from momentalign.encoders import _huggingface as hf
from momentalign.encoders._base import Preprocessing

_LENGTH = 128
"""Tokens per row in the paper's MultiNLI experiment."""
_CHUNK = 8192
"""Texts tokenized at a time, to bound the number of Python objects alive."""
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json")


class TextPreprocessing(Preprocessing):
    """Texts or pairs of texts, tokenized, truncated and padded to a fixed length.

    The tokenizer is kept as the text of its `tokenizer.json`, so that a trained model needs no other file.

    Args:
        tokenizer: Text of a `tokenizer.json`.
        padding: Index and name of the padding token.
        length: Tokens per row; the longer text of a pair is truncated first.
    """

    kind = "text"

    def __init__(self, tokenizer: str, padding: Sequence[Any], length: int = _LENGTH) -> None:
        if length < 4:
            raise ValueError(f"'length' should be at least 4, a pair's special tokens and one more, but is {length}.")
        self.tokenizer, self.padding, self.length, self.shape = tokenizer, tuple(padding), length, (3, length)

    def coerce(self, inputs: Any) -> Items:
        if not all(isinstance(text, str) for text in inputs):
            raise TypeError("'inputs' should be sentences, or a tensor of tokens (n, 3, length).")
        return Texts(inputs)

    def open(self, inputs: Tensor | Items) -> Tensor:
        """Tokenize texts; a tensor from an earlier call is returned unchanged.

        The result holds token ids, sentence ids (0 or 1) and the attention mask: int32, shape (n, 3, length).
        """
        if isinstance(inputs, Tensor) and inputs.dtype == torch.int32 and inputs.ndim == 3 and inputs.shape[1] == 3:
            return inputs
        if not isinstance(inputs, Texts):
            kind = f"{inputs.dtype} tensors" if isinstance(inputs, Tensor) else inputs.kind
            raise ValueError(f"The encoder takes texts, but these rows are {kind}.")
        tokenizer = self._build_tokenizer()
        rows = np.empty((len(inputs), 3, self.length), dtype=np.int32)
        for start in range(0, len(inputs), _CHUNK):
            part = slice(start, start + _CHUNK)
            first, second = inputs.first[part], inputs.second
            texts = first if second is None else list(zip(first, second[part], strict=True))
            for row, encoding in enumerate(tokenizer.encode_batch(texts), start):
                rows[row] = encoding.ids, encoding.type_ids, encoding.attention_mask
        return torch.from_numpy(rows)

    def to_inputs(self, raw: Tensor) -> Tensor:
        return raw

    def trim(self, raw: Tensor) -> Tensor:
        """Drop the columns that are padding in every row, which leaves the features the same; synchronises on a GPU."""
        return raw[:, :, : max(1, int(raw[:, 2].sum(1).max()))] if len(raw) else raw

    def example(self, number: int) -> Tensor:
        return torch.ones(number, 3, self.length, dtype=torch.int32)

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "length": self.length, "padding": list(self.padding), "tokenizer": self.tokenizer}

    def _build_tokenizer(self) -> Any:
        tokenizer = require("tokenizers", "Texts need", extra="train").Tokenizer.from_str(self.tokenizer)
        index, name = self.padding
        tokenizer.enable_truncation(self.length, strategy="longest_first")
        tokenizer.enable_padding(direction="right", length=self.length, pad_id=index, pad_token=name)
        return tokenizer


class HuggingFaceText(hf.HuggingFaceEncoder):
    """A text model of the transformers library.

    The features are the model's pooled output (BERT's, a trained layer over the first token) if the model has one with
    weights, otherwise the first token of the last hidden state.

    Args:
        features: "pooler" or "cls", as above.
    """

    kind = "huggingface-text"
    preprocessing_class = TextPreprocessing
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
        check_choice("features", features, ("pooler", "cls"))
        self.model = model.train()
        self.preprocessing, self.features, self.source, self.notes = preprocessing, features, source, notes
        self.num_features = int(model.config.hidden_size)
        parameters = inspect.signature(model.forward).parameters
        # Some models have one sentence id only, and an embedding table of that size.
        self._uses_sentences = "token_type_ids" in parameters and getattr(model.config, "type_vocab_size", 0) > 1
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(features == "pooler" or not name.startswith("pooler."))

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the features of token ids, sentence ids and attention mask, integers of shape (n, 3, length)."""
        tokens, sentences, mask = inputs.long().unbind(1)
        more = {"token_type_ids": sentences} if self._uses_sentences else {}
        output = self.model(input_ids=tokens, attention_mask=mask, return_dict=True, **more)
        features: Tensor = output.pooler_output if self.features == "pooler" else output.last_hidden_state[:, 0]
        return features

    @staticmethod
    def build(architecture: Any) -> Any:
        return hf.random_model(hf.transformers().AutoModel.from_config, architecture, trust_remote_code=False)


def text_from_folder(folder: Path, architecture: Any, *, weights: bool = True, source: str = "") -> HuggingFaceText:
    """Build a text encoder from a folder in Hugging Face format, with random weights if `weights` is False."""
    if getattr(architecture, "is_encoder_decoder", False) or not hasattr(architecture, "hidden_size"):
        raise ValueError(
            f"{folder} holds a model of type '{architecture.model_type}', which is not a text encoder such as BERT."
        )
    preprocessing = _read_tokenizer(folder, min(_LENGTH, getattr(architecture, "max_position_embeddings", _LENGTH)))
    if not weights:
        model = HuggingFaceText.build(architecture)
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


def _has_pooler(model: Any) -> bool:
    return getattr(model, "pooler", None) is not None


def _read_tokenizer(folder: Path, length: int) -> TextPreprocessing:
    """Read the tokenizer of a folder, whatever files it is in."""
    if not any((folder / name).is_file() for name in _VOCABULARIES):  # the library would make an empty one
        raise ValueError(f"{folder} should contain a tokenizer, but has none of {', '.join(_VOCABULARIES)}.")
    try:
        with hf.quiet_transformers():
            tokenizer = hf.transformers().AutoTokenizer.from_pretrained(
                str(folder), use_fast=True, trust_remote_code=False, local_files_only=True
            )
    except Exception as error:  # the library raises OSError, ValueError, ImportError, KeyError and others
        raise ValueError(f"{folder} should contain a tokenizer, but it cannot be read: {first_line(error)}") from None
    if not tokenizer.is_fast or tokenizer.pad_token is None:
        wanted = "a padding token" if tokenizer.is_fast else "a form that needs no Python code (tokenizer.json)"
        raise ValueError(f"The tokenizer in {folder} should have {wanted}, but has none.")
    padding = (int(tokenizer.pad_token_id), str(tokenizer.pad_token))
    return TextPreprocessing(tokenizer.backend_tokenizer.to_str(), padding, length)
