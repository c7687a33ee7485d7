"""Read rows in batches, with prefetching worker processes."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset


def read_rows(
    rows: Tensor | Dataset[Tensor], batches: Iterable[Tensor], *, workers: int, pin_memory: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Read batches of opened rows through a `DataLoader`, given the row indices of each batch.

    Yields row indices and raw rows, both on the host. A row that cannot be read raises its original exception.
    """
    loader: DataLoader[Any] = DataLoader(
        _Indexed(rows),
        batch_sampler=(indices.tolist() for indices in batches),
        collate_fn=_collate,
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        pin_memory=pin_memory,
    )
    for indices, raw, error in loader:
        if error is not None:
            raise error
        yield indices, raw


class _Indexed(Dataset[Any]):
    """Rows with their indices; errors are returned, not raised, to keep a worker's traceback out of the message."""

    def __init__(self, raw: Tensor | Dataset[Tensor]) -> None:
        self.raw = raw

    def __getitem__(self, index: int) -> tuple[int, Tensor | Exception]:
        try:
            return index, self.raw[index]
        except Exception as error:
            return index, error


def _collate(items: list[tuple[int, Tensor | Exception]]) -> tuple[Tensor, Tensor | None, Exception | None]:
    indices = torch.tensor([index for index, _ in items])
    tensors = [row for _, row in items if isinstance(row, Tensor)]
    if len(tensors) == len(items):
        return indices, torch.stack(tensors), None
    return indices, None, next(row for _, row in items if isinstance(row, Exception))
