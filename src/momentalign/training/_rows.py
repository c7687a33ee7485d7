"""All rows of a data set behind one another: where a domain's split begins and ends, and how to read rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset

from momentalign.data import DomainDataset
from momentalign.encoders import Preprocessing, read_rows


@dataclass(frozen=True, eq=False)
class Rows:
    """N rows: all splits of all domains, one after another.

    Args:
        raw: What the preprocessing made of the inputs: a tensor on the device, or a data set that reads row by row.
        targets: Class indices on the device, shape (N,).
        groups: Groups on the host, shape (N,), or None.
        spans: First row, and the one after the last, of each domain's splits.
    """

    raw: Tensor | Dataset[Tensor]
    targets: Tensor
    groups: Tensor | None
    spans: Mapping[tuple[str, str], tuple[int, int]]

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def on_device(self) -> bool:
        """Whether rows can be gathered on the device, without a loader."""
        return isinstance(self.raw, Tensor)


_remembered: WeakKeyDictionary[DomainDataset, dict[tuple[str, str], Rows]] = WeakKeyDictionary()


def open_rows(data: DomainDataset, preprocessing: Preprocessing, device: torch.device) -> Rows:
    """Put a data set's rows behind one another, on the device where they are tensors.

    The rows of a data set are kept as long as it is, so that a second run on it finds them.

    Args:
        data: The data set.
        preprocessing: The encoder's.
        device: Where tensors go.

    Returns:
        The rows.
    """
    key = (str(device), json.dumps(preprocessing.config(), sort_keys=True))
    kept = _remembered.setdefault(data, {})
    if key not in kept:
        kept.clear()
        kept[key] = _open(data, preprocessing, device)
    return kept[key]


def _open(data: DomainDataset, preprocessing: Preprocessing, device: torch.device) -> Rows:
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    opened: list[Any] = []
    targets, groups = [], []
    start = 0
    for domain, splits in data.domains.items():
        for split, rows in splits.items():
            spans[domain, split] = (start, start + len(rows))
            start += len(rows)
            if len(rows):
                opened.append(preprocessing.open(rows.inputs))
            targets.append(rows.targets)
            groups.append(rows.groups)
    if not opened:
        raise ValueError(f"{data.name} should have rows, but has none.")
    raw: Tensor | Dataset[Tensor]
    raw = torch.cat(opened).to(device) if isinstance(opened[0], Tensor) else ConcatDataset(opened)
    known = [group for group in groups if group is not None]
    together = torch.cat(known).cpu() if len(known) == len(groups) else None
    return Rows(raw, torch.cat(targets).to(device), together, spans)


def batch_size_for(rows: Rows) -> int:
    """Rows to evaluate at a time: thousands of small ones on a GPU; on a CPU few, so that its caches hold them."""
    small = isinstance(rows.raw, Tensor) and rows.raw.is_floating_point() and rows.raw[0].numel() <= 4096
    if rows.targets.is_cuda:
        return 4096 if small else 256
    flat = small and isinstance(rows.raw, Tensor) and rows.raw.ndim == 2
    return 1024 if flat else 64 if small else 16


def read_batches(
    rows: Rows, batches: Sequence[Tensor] | Iterator[Tensor], workers: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Read batches of rows through a loader, ahead of their use.

    Args:
        rows: With a data set for `raw`.
        batches: Row numbers of each batch.
        workers: Processes that read; 0 reads here.

    Yields:
        Row numbers and raw rows, both on the host.

    Raises:
        Exception: What reading a row raised, as it was raised.
    """
    yield from read_rows(rows.raw, batches, workers=workers, pin_memory=rows.targets.is_cuda)
