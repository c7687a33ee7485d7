"""Rows of a table, as they are in it: a model learns what its columns mean later, from the rows it is trained on."""

from collections.abc import Sequence
from typing import Any, Self

from torch import Tensor

from momentalign.data._items import Items


class TableRows(Items):
    """Rows of a table, which an encoder's preprocessing turns into numbers.

    Args:
        frame: Data frame of the features, n rows.
        names: What the rows are called; their positions if not given.
    """

    kind = "rows of a table"

    def __init__(self, frame: Any, names: Sequence[str] | None = None) -> None:
        self.frame = frame
        digits = len(str(len(frame)))  # of the same length, so that they sort as the numbers do
        self.names = [f"{k:0{digits}d}" for k in range(len(frame))] if names is None else list(names)
        if len(self.names) != len(frame):
            raise ValueError(f"'names' should have one entry per row ({len(frame)}), but has {len(self.names)}.")

    def rows(self, indices: Tensor) -> Self:
        """Select rows, in the given order and as often as they are named.

        Args:
            indices: Row numbers, shape (m,).

        Returns:
            The selected rows, m of them.
        """
        order = indices.tolist()
        return type(self)(self.frame.iloc[order], [self.names[index] for index in order])

    @classmethod
    def joined(cls, parts: Sequence["TableRows"]) -> Self:
        """Rows of several parts with the same columns, one after another.

        Args:
            parts: At least one.

        Returns:
            All of them.
        """
        import pandas

        return cls(pandas.concat([part.frame for part in parts]), [name for part in parts for name in part.names])

    def digest_bytes(self) -> bytes:
        """What tells these rows from others: names, kinds and values of their columns."""
        import pandas

        kinds = "\0".join(f"{name}\0{kind}" for name, kind in self.frame.dtypes.items())
        values: bytes = pandas.util.hash_pandas_object(self.frame, index=False).to_numpy().tobytes()
        return kinds.encode() + values
