"""Rows that are read one by one, in batches and ahead of their use."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset


def read_rows(
    rows: Tensor | Dataset[Tensor], batches: Iterable[Tensor], *, workers: int, pin_memory: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Read batches of rows through a loader.

    Args:
        rows: What a preprocessing opened.
        batches: Row numbers of each batch.
        workers: Processes that read; 0 reads here.
        pin_memory: Whether batches are for a GPU.

    Yields:
        Row numbers and raw rows, both on the host.

    Raises:
        Exception: What reading a row raised, as it was raised.
    """
    loader: DataLoader[Any] = DataLoader(
        _Numbered(rows),
        batch_sampler=_Lists(batches),
        collate_fn=_collate,
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        pin_memory=pin_memory,
    )
    for numbers, raw, error in loader:
        if error is not None:
            raise error
        yield numbers, raw


class _Numbered(Dataset[Any]):
    """Rows with their numbers; an error in a worker is handed over instead of raised, to keep its message short."""

    def __init__(self, raw: Tensor | Dataset[Tensor]) -> None:
        self.raw = raw

    def __getitem__(self, number: int) -> tuple[int, Tensor | Exception]:
        try:
            return number, self.raw[number]
        except Exception as error:
            return number, error


class _Lists:
    """Row numbers as the lists that a loader wants."""

    def __init__(self, batches: Iterable[Tensor]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return (numbers.tolist() for numbers in self.batches)


def _collate(items: list[tuple[int, Tensor | Exception]]) -> tuple[Tensor, Tensor | None, Exception | None]:
    numbers = torch.tensor([number for number, _ in items])
    tensors = [row for _, row in items if isinstance(row, Tensor)]
    if len(tensors) == len(items):
        return numbers, torch.stack(tensors), None
    return numbers, None, next(row for _, row in items if isinstance(row, Exception))
