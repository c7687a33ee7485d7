"""Rows of a table to numbers, by what was learned of its columns from the rows that are trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from momentalign.data import Items, TableRows
from momentalign.data._columns import Column, encode, learn_columns, said_of
from momentalign.encoders._base import Preprocessing

_FAR = 1e3
"""Standard deviations from zero at which a column's mean costs single precision too many of its digits."""


class TablePreprocessing(Preprocessing):
    """Numbers of mean 0 and variance 1, one column of 0 and 1 a category first.

    Mean, variance, medians for missing numbers and the categories are those of the rows that it was learned from,
    whatever rows it is used on: columns are found by name, others are ignored, a category that was not learned is all
    zeros, as is a missing one where none was missing before.

    Args:
        columns: What was learned of each column.
        mean: Subtracted from the numbers, one for each that the columns become.
        scale: Divides them then.
    """

    def __init__(self, columns: Sequence[Column], mean: Sequence[float], scale: Sequence[float]) -> None:
        self.columns = tuple(columns)
        self.width = sum(column.width for column in self.columns)
        self.mean, self.scale = (torch.tensor(list(values), dtype=torch.float64) for values in (mean, scale))
        for name in ("mean", "scale"):
            if len(getattr(self, name)) != self.width:
                found = len(getattr(self, name))
                raise ValueError(f"'{name}' should have one number for each of {self.width}, but has {found}.")
        self._placed: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    @classmethod
    def learn(cls, rows: TableRows) -> tuple[Self, list[str]]:
        """Learn what the columns of rows are.

        Args:
            rows: Those that a model is trained on.

        Returns:
            The preprocessing, and what was decided, a sentence each.

        Raises:
            ValueError: No column that can be used.
        """
        columns, notes = learn_columns(rows.frame)
        matrix = encode(rows.frame, columns).matrix
        scale = matrix.std(0)
        return cls(columns, matrix.mean(0).tolist(), np.where(scale > 0, scale, 1.0).tolist()), notes

    def open(self, inputs: Tensor | Items) -> Tensor:
        """Make numbers of rows.

        Args:
            inputs: Rows of a table with the columns that were learned, in any order; or their numbers, shape
                (n, width), missing ones filled and categories as 0 and 1.

        Returns:
            The numbers, not yet of mean 0 and variance 1, shape (n, width).

        Raises:
            ValueError: Rows of another kind, without one of the columns, or with text in a column of numbers.
        """
        if isinstance(inputs, TableRows):
            numbers = torch.from_numpy(encode(inputs.frame, self.columns).matrix)
            return numbers if bool((self.mean.abs() > _FAR * self.scale).any()) else numbers.float()
        if isinstance(inputs, Items):
            raise ValueError(f"The encoder takes rows of a table, but these are {type(inputs).__name__}.")
        if inputs.shape[1:] != (self.width,):
            raise ValueError(
                f"The encoder takes rows of {self.width} numbers, but these have shape {tuple(inputs.shape[1:])}."
            )
        return inputs

    def remarks(self, inputs: TableRows, rows: str) -> list[str]:
        """What :meth:`open` does to values that are missing or of no known category.

        Args:
            inputs: The rows.
            rows: What they are called.

        Returns:
            A sentence each.
        """
        odd = [
            column for column in self.columns if column.categories is not None or inputs.frame[column.name].isna().any()
        ]
        return said_of(encode(inputs.frame, odd), rows)

    def to_inputs(self, raw: Tensor) -> Tensor:
        """Subtract the mean and divide by the standard deviation.

        Args:
            raw: Numbers, shape (n, width).

        Returns:
            The same in single precision with mean 0 and variance 1 over the rows that were learned from.
        """
        if not raw.is_floating_point():
            raw = raw.float()
        key = (raw.device, raw.dtype)
        if key not in self._placed:
            self._placed[key] = (self.mean.to(*key), self.scale.to(*key))
        mean, scale = self._placed[key]
        return ((raw - mean) / scale).float()

    def config(self) -> dict[str, Any]:
        """Describe the preprocessing, in values that JSON can hold."""
        return {
            "kind": "table",
            "columns": [asdict(column) for column in self.columns],
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The same from what :meth:`config` gave."""
        columns = [
            Column(one["name"], one["fill"], None if one["categories"] is None else tuple(one["categories"]))
            for one in config["columns"]
        ]
        return cls(columns, config["mean"], config["scale"])
