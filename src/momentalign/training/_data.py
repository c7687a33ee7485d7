"""A run's data set: loaded once per process, and its rows concatenated on the device."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset

from momentalign.data import DomainDataset, dataset_names, load_dataset
from momentalign.encoders import DecodedImages, Preprocessing, read_rows
from momentalign.runs import RunConfig

IMAGE_BYTES = 4 * 2**30
"""Most bytes of decoded images that are kept in memory; larger sets are decoded at every read."""


class DataFacts(NamedTuple):
    """Facts of a data set that configurations depend on; the same in every trial."""

    name: str
    names: tuple[str, ...]
    recipe: str
    is_regression: bool
    classes: tuple[str, ...]
    training_rows: Mapping[str, int]


def facts_of(data: DomainDataset) -> DataFacts:
    """Names and sizes of a data set."""
    split = data.training_split
    rows = {name: len(splits[split]) if split in splits else 0 for name, splits in data.domains.items()}
    return DataFacts(data.name, data.names, data.training_recipe, data.is_regression, data.classes, rows)


def load_facts(dataset: str, root: str | Path | None) -> DataFacts:
    """Names and sizes of a data set by name or path; a path is read every time, since it may have changed."""
    return _load_facts(dataset, root) if dataset in dataset_names() else _load_facts.__wrapped__(dataset, root)


def open_dataset(config: RunConfig, root: str | Path | None, *, skip_bad_files: bool = False) -> DomainDataset:
    """Load the data set of a run, or return the last one that this process loaded; a path is read every time."""
    return _load(config.dataset, config.trial, root, config.holdout, skip_bad_files)


def _load(dataset: str, trial: int, root: str | Path | None, holdout: float, skip_bad: bool) -> DomainDataset:
    load = _load_cached if dataset in dataset_names() else load_dataset
    return load(dataset, trial=trial, root=root, holdout=holdout, skip_bad=skip_bad)


_load_cached = lru_cache(maxsize=1)(load_dataset)


@lru_cache(maxsize=16)
def _load_facts(dataset: str, root: str | Path | None) -> DataFacts:
    return facts_of(_load(dataset, 0, root, 0.2, False))


def describe_data(data: DomainDataset) -> dict[str, Any]:
    """Names of domains and classes and numbers of rows, as in `run.json`."""
    rows = {domain: {split: len(part) for split, part in splits.items()} for domain, splits in data.domains.items()}
    return {"domains": data.names, "classes": data.classes, "rows": rows, "group_rows": count_groups(data)}


def count_groups(data: DomainDataset) -> dict[str, dict[str, int]]:
    """Number of rows of each group by split, without groups that a split lacks; empty where rows have no groups."""
    names, counts = data.group_names, dict[str, dict[str, int]]()
    for splits in data.domains.values():
        for split, part in splits.items():
            if names is None or part.groups is None:
                continue
            own = counts.setdefault(split, {})
            for index, number in enumerate(part.groups.bincount(minlength=len(names)).tolist()):
                if number:
                    own[names[index]] = own.get(names[index], 0) + number
    return counts


@dataclass(frozen=True, eq=False)
class DatasetRows:
    """The N rows of all splits of all domains, concatenated.

    Args:
        raw: The opened inputs: a tensor on the device, or a data set that reads row by row.
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

    def indices(self, domain: str, split: str) -> Tensor:
        """Row indices of a domain's split; empty where there is none."""
        return torch.arange(*self.spans.get((domain, split), (0, 0)))

    def of_split(self, split: str) -> Tensor:
        """Row indices of a split of all domains."""
        return torch.cat([torch.arange(*span) for (_, name), span in self.spans.items() if name == split])

    @property
    def on_device(self) -> bool:
        """Whether rows can be gathered on the device, without a loader."""
        return isinstance(self.raw, Tensor)

    @property
    def evaluation_batch(self) -> int:
        """Rows to evaluate at a time: thousands of small ones on a GPU; few on a CPU, so that its caches hold them."""
        numbers = self.raw[0].numel() if isinstance(self.raw, Tensor) and self.raw.is_floating_point() else None
        small = numbers is not None and numbers <= 4096
        if self.targets.is_cuda:
            return 4096 if small else 256
        tiny = numbers is not None and numbers <= 256
        return 1024 if tiny else 64 if small else 16

    def read(self, batches: Sequence[Tensor] | Iterator[Tensor], workers: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Prefetch batches of row indices through a loader; yields indices and raw rows on the host."""
        yield from read_rows(self.raw, batches, workers=workers, pin_memory=self.targets.is_cuda)


_opened: WeakKeyDictionary[DomainDataset, dict[tuple[str, str], DatasetRows]] = WeakKeyDictionary()


def open_rows(data: DomainDataset, preprocessing: Preprocessing, device: torch.device) -> DatasetRows:
    """Concatenate a data set's rows, on the device where they are tensors; cached as long as the data set lives."""
    key = (str(device), json.dumps(preprocessing.config(), sort_keys=True))
    cached = _opened.setdefault(data, {})
    if key not in cached:
        cached.clear()
        cached[key] = _open(data, preprocessing, device)
    return cached[key]


def _open(data: DomainDataset, preprocessing: Preprocessing, device: torch.device) -> DatasetRows:
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
    images = [part for part in opened if isinstance(part, DecodedImages)]
    if _fits(images, device, small=preprocessing.is_small):
        opened = [part.load() if isinstance(part, DecodedImages) else part for part in opened]
    raw: Tensor | Dataset[Tensor]
    raw = torch.cat(opened).to(device) if isinstance(opened[0], Tensor) else ConcatDataset(opened)
    known = [group for group in groups if group is not None]
    together = torch.cat(known).cpu() if len(known) == len(groups) else None
    return DatasetRows(raw, torch.cat(targets).to(device), together, spans)


def _fits(images: Sequence[DecodedImages], device: torch.device, *, small: bool) -> bool:
    """Whether to decode image files once: small images, or on a GPU with enough free memory."""
    if not images or (device.type != "cuda" and not small):
        return False
    if device.type != "cuda":
        return sum(part.nbytes for part in images) <= IMAGE_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    return sum(part.nbytes for part in images) <= min(IMAGE_BYTES, free // 4)
