"""Sentences and pairs of sentences, tokenised to a fixed length."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from momentalign._extras import require
from momentalign.data import Items, Texts
from momentalign.encoders._preprocessing import Preprocessing

_CHUNK = 8192
"""Texts tokenised at a time, so that Python objects of few of them live at once."""


class TextPreprocessing(Preprocessing):
    """Tokens of a vocabulary, cut and padded to one length.

    The tokenizer is kept as the text of its `tokenizer.json`, so that a trained model needs no other file.

    Args:
        tokenizer: Text of a `tokenizer.json`.
        padding: Number and name of the padding token.
        length: Tokens a row; the longer sentence of a pair is cut first.
    """

    def __init__(self, tokenizer: str, padding: tuple[int, str], length: int = 128) -> None:
        if length < 4:
            raise ValueError(f"'length' should be at least 4, a pair's special tokens and one more, but is {length}.")
        self.tokenizer, self.padding, self.length = tokenizer, padding, length

    def open(self, inputs: Tensor | Items) -> Tensor:
        """Tokenise.

        Args:
            inputs: Texts, or what this gave for them before.

        Returns:
            Numbers of the tokens, of the sentence (0 or 1) and the attention mask: int32, shape (n, 3, length).

        Raises:
            ValueError: No texts.
        """
        if isinstance(inputs, Tensor) and inputs.dtype == torch.int32 and inputs.ndim == 3 and inputs.shape[1] == 3:
            return inputs
        if not isinstance(inputs, Texts):
            found = f"{inputs.dtype} tensors" if isinstance(inputs, Tensor) else inputs.kind
            raise ValueError(f"The encoder takes texts, but these rows are {found}.")
        tokenizer = self._build()
        rows = np.empty((len(inputs), 3, self.length), dtype=np.int32)
        for start in range(0, len(inputs), _CHUNK):
            part = slice(start, start + _CHUNK)
            first, second = inputs.first[part], inputs.second
            texts = first if second is None else list(zip(first, second[part], strict=True))
            for row, encoding in enumerate(tokenizer.encode_batch(texts), start):
                rows[row] = encoding.ids, encoding.type_ids, encoding.attention_mask
        return torch.from_numpy(rows)

    def to_inputs(self, raw: Tensor) -> Tensor:
        """Tokens are inputs already.

        Args:
            raw: Shape (n, 3, length).

        Returns:
            The same tensor.
        """
        return raw

    def trim(self, raw: Tensor) -> Tensor:
        """Leave out the columns that are padding in every row; the features stay the same.

        Looks at the values, so rows on a GPU make the host wait.

        Args:
            raw: Shape (n, 3, length).

        Returns:
            Shape (n, 3, at most length).
        """
        return raw[:, :, : max(1, int(raw[:, 2].sum(1).max()))] if len(raw) else raw

    def config(self) -> dict[str, Any]:
        """Describe the preprocessing, in values that JSON can hold."""
        return {"kind": "text", "length": self.length, "padding": list(self.padding), "tokenizer": self.tokenizer}

    def _build(self) -> Any:
        tokenizer = require("tokenizers", "Texts need", extra="train").Tokenizer.from_str(self.tokenizer)
        number, name = self.padding
        tokenizer.enable_truncation(self.length, strategy="longest_first")
        tokenizer.enable_padding(direction="right", length=self.length, pad_id=number, pad_token=name)
        return tokenizer
