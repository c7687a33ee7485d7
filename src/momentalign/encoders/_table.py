"""Preprocessing of table rows, learned on training rows."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from momentalign.data import Items, TableRows
from momentalign.encoders._base import Preprocessing
from momentalign.tables import Column, TableEncoder, encode_rows, fit_encoder

_FAR = 1e3
"""A mean this many standard deviations from zero costs single precision too many digits."""


class TablePreprocessing(Preprocessing):
    """Standardised numbers and one 0/1 column per category.

    Columns are matched by name and others ignored. A category that the training rows lack becomes all zeros, as does a
    missing value where the training rows had none.

    Args:
        encoder: Learned on the training rows, without projection.
    """

    kind = "table"

    def __init__(self, encoder: TableEncoder) -> None:
        self.encoder, self.width, self.shape = encoder, encoder.width, (encoder.width,)
        self.mean, self.scale = torch.from_numpy(encoder.mean), torch.from_numpy(encoder.scale)
        self._cached: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    @classmethod
    def learn(cls, rows: TableRows) -> tuple[Self, list[str]]:
        """Learn from training rows; also returns notes on the encoding, one sentence each."""
        encoder, _, notes = fit_encoder(rows.frame)
        return cls(encoder), notes

    def coerce(self, inputs: Any) -> Items:
        if not hasattr(inputs, "columns"):
            raise TypeError(f"'inputs' should be a data frame for this model, but is a {type(inputs).__name__}.")
        return TableRows(inputs)

    def open(self, inputs: Tensor | Items) -> Tensor:
        """Encode rows, not yet standardised, shape (n, width); a tensor of encoded rows is returned as it is."""
        if isinstance(inputs, TableRows):
            numbers = torch.from_numpy(self.encoder.encode(inputs.frame).matrix)
            return numbers if bool((self.mean.abs() > _FAR * self.scale).any()) else numbers.float()
        if isinstance(inputs, Items):
            raise ValueError(f"The encoder takes rows of a table, but these are {type(inputs).__name__}.")
        if inputs.shape[1:] != (self.width,):
            raise ValueError(
                f"The encoder takes rows of {self.width} numbers, but these have shape {tuple(inputs.shape[1:])}."
            )
        return inputs

    def describe_rows(self, inputs: Items, rows: str) -> list[str]:
        """Sentences on filled values and ignored categories."""
        if not isinstance(inputs, TableRows):
            return []
        affected = [
            column
            for column in self.encoder.columns
            if column.categories is not None or inputs.frame[column.name].isna().any()
        ]
        return encode_rows(inputs.frame, affected).describe(rows)

    def to_inputs(self, raw: Tensor) -> Tensor:
        """Standardise encoded rows; the result is in single precision."""
        if not raw.is_floating_point():
            raw = raw.float()
        key = (raw.device, raw.dtype)
        if key not in self._cached:
            self._cached[key] = (self.mean.to(*key), self.scale.to(*key))
        mean, scale = self._cached[key]
        return ((raw - mean) / scale).float()

    def config(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "columns": [asdict(column) for column in self.encoder.columns],
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`config`."""
        columns = tuple(Column.from_dict(column) for column in config["columns"])
        mean, scale = (np.array(config[name], dtype=np.float64) for name in ("mean", "scale"))
        return cls(TableEncoder(columns, mean, scale))
