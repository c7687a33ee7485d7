"""Compute the features of a data set and save them to a file."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from momentalign._validation import check_count
from momentalign.data import DomainDataset, Items, Split
from momentalign.encoders._base import Encoder
from momentalign.encoders._feature_files import (
    Shards,
    check_feature_path,
    check_intact,
    check_plan,
    read_plan,
    write_features,
)
from momentalign.encoders._reading import read_rows
from momentalign.encoders._text import TextPreprocessing

_FORMAT = 1
_SAVE_SECONDS = 20.0
"""Time between saves: work that a kill may lose."""
_IRRELEVANT = ("source", "transformers", "keep_statistics")
"""Entries of an encoder's configuration that do not change its features in evaluation mode."""
_DRAWN = {"in", "out"}
"""Splits drawn by a trial; others were published with the data."""

_Progress = Callable[[int, int], None]


def embed(
    dataset: DomainDataset,
    encoder: Encoder,
    out: str | Path,
    *,
    batch_size: int = 64,
    device: str | torch.device = "cpu",
    workers: int = 0,
    splits: bool | None = None,
    progress: _Progress | None = None,
) -> Path:
    """Compute the features of all rows of a data set and save them to a file.

    The file has columns `x0`, `x1`, … (npz: a matrix `X`), `y`, `domain` and, if there are any, `split`, `group` and
    `file`. Classes and groups are indices, domains too in an npz file; their names are in the file's metadata (npz:
    arrays `classes`, `domains`, `group_names`). Rows are ordered by domain.

    "in" and "out" are drawn by a trial of the DomainBed protocol and do not belong to the data. By default they are
    left out and the rows sorted by name, so that every trial gives the same file.

    Until the file is complete, finished features are saved in a folder beside it (`features.parquet.parts`), from which
    an interrupted call is resumed. A folder or file of another data set or encoder is refused; a finished file is left
    unchanged.

    Args:
        dataset: Any data set.
        encoder: An encoder for its kind of rows; it is put into evaluation mode and moved to the device.
        out: A .parquet or .npz file.
        batch_size: Rows per batch; it changes the features by rounding only.
        device: Device of the encoder.
        workers: Worker processes that decode images; 0 decodes in this process.
        splits: Whether to write a `split` column; None writes it if splits were published with the data.
        progress: Called with the number of finished rows and of all rows.

    Returns:
        The path of the file.
    """
    embedding = Embedding(dataset, encoder, out, batch_size=batch_size, device=device, workers=workers, splits=splits)
    return embedding.run(progress)


class Embedding:
    """The work of :func:`embed`, with an estimate before it starts; other arguments as there.

    Args:
        fewer_rows: Whether rows may have been left out since an earlier call that unreadable files stopped; features
            saved by that call are then discarded.

    Attributes:
        rows: Number of all rows.
        done: Number of rows finished by earlier calls.
    """

    def __init__(
        self,
        dataset: DomainDataset,
        encoder: Encoder,
        out: str | Path,
        *,
        batch_size: int = 64,
        device: str | torch.device = "cpu",
        workers: int = 0,
        splits: bool | None = None,
        fewer_rows: bool = False,
    ) -> None:
        check_count("batch_size", batch_size, 1)
        check_count("workers", workers, 0)
        self.out = Path(out)
        check_feature_path(self.out)
        self._dataset, self._encoder = dataset, encoder
        self._batch_size, self._device, self._workers = batch_size, torch.device(device), workers
        self._parts = _dataset_parts(dataset, splits)
        self._columns = _row_columns(self._parts, dataset)
        self._plan = {
            "format": _FORMAT,
            "data set": {"name": dataset.name, "sha256": _rows_digest(self._parts, self._columns)},
            "encoder": {"name": encoder.source, "sha256": _encoder_digest(encoder)},
        }
        self.rows = sum(len(part.rows) for part in self._parts)
        self._shards = Shards(self.out.with_name(f"{self.out.name}.parts"), self._plan, fewer_rows=fewer_rows)
        self._finished = self.out.exists()
        if self._finished:
            check_intact(self.out)
            check_plan(read_plan(self.out), self._plan, self.out, "finished")
        self.done = self.rows if self._finished else self._shards.rows

    def seconds_left(self) -> float:
        """Estimate the seconds for the remaining rows by embedding a few of them, decoded in this process."""
        if self.done == self.rows:
            return 0.0
        part = self._parts[0].rows
        size = min(len(part), self._batch_size if self._device.type == "cuda" else min(self._batch_size, 8))
        seconds = []
        for _ in range(3):  # the first pass allocates
            start = time.perf_counter()
            for _ in self._embed(part.rows(torch.arange(size)), workers=0):
                pass
            seconds.append(time.perf_counter() - start)
        return min(seconds) / size * (self.rows - self.done)

    def run(self, progress: _Progress | None = None) -> Path:
        """Compute the remaining features and return the path of the file."""
        report = progress or (lambda done, total: None)
        report(self.done, self.rows)
        if self._finished:
            self._shards.remove()  # left by a kill
            return self.out
        shards = self._shards.create()
        pending: list[Tensor] = []
        saved = time.monotonic()
        try:
            for features in self._remaining():
                pending.append(features)
                report(shards.rows + sum(map(len, pending)), self.rows)
                if time.monotonic() - saved > _SAVE_SECONDS:
                    pending, ready = [], pending
                    shards.append(torch.cat(ready).numpy())
                    saved = time.monotonic()
        finally:
            if pending:  # also after an error or an interruption
                shards.append(torch.cat(pending).numpy())
        names = {"classes": self._dataset.classes, "domains": self._dataset.names}
        if self._dataset.group_names is not None:
            names["group_names"] = self._dataset.group_names
        write_features(self.out, shards, self._columns, names, self._plan)
        shards.remove()
        self._finished, self.done = True, self.rows
        return self.out

    def _remaining(self) -> Iterator[Tensor]:
        skip = self._shards.rows
        for part in self._parts:
            if skip < len(part.rows):
                yield from self._embed(part.rows.rows(torch.arange(skip, len(part.rows))), self._workers)
            skip = max(0, skip - len(part.rows))

    def _embed(self, rows: Split, workers: int) -> Iterator[Tensor]:
        """Features of rows on the host, batch by batch."""
        encoder, preprocessing = self._encoder.to(self._device).eval(), self._encoder.preprocessing
        for raw in self._batches(preprocessing.open(rows.inputs), len(rows), workers):
            trimmed = preprocessing.trim(raw) if isinstance(preprocessing, TextPreprocessing) else raw
            with torch.inference_mode():
                features = encoder(preprocessing.to_inputs(trimmed.to(self._device, non_blocking=True)))
            yield features.float().cpu()

    def _batches(self, rows: Tensor | Dataset[Tensor], number: int, workers: int) -> Iterator[Tensor]:
        if isinstance(rows, Tensor):
            yield from rows.split(self._batch_size)
        else:
            batches = torch.arange(number).split(self._batch_size)
            for _, raw in read_rows(rows, batches, workers=workers, pin_memory=self._device.type == "cuda"):
                yield raw


def _encoder_digest(encoder: Encoder) -> str:
    """Digest of architecture, preprocessing and weights."""
    config = {name: value for name, value in encoder.config().items() if name not in _IRRELEVANT}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows of one domain, or of one split of it; `domain` is an index."""

    domain: int
    split: str | None
    rows: Split


def _dataset_parts(dataset: DomainDataset, splits: bool | None = None) -> list[_Part]:
    """Divide a data set into its non-empty parts, domain by domain.

    With `splits` a part is one split; None keeps only splits that were published with the data. "in" and "out" belong
    to a trial of the DomainBed protocol: they are joined and the rows sorted by name, so that every trial gives the
    same file.
    """
    keep = not set(dataset.split_names) <= _DRAWN if splits is None else splits
    parts = []
    for domain, rows in enumerate(dataset.domains.values()):
        if keep:
            parts += [_Part(domain, split, part) for split, part in rows.items() if len(part)]
        elif present := [part for part in rows.values() if len(part)]:
            parts.append(_Part(domain, None, _sort_by_name(_join(present))))
    if not parts:
        raise ValueError(f"{dataset.name} should have rows, but has none.")
    return parts


def _row_columns(parts: Sequence[_Part], dataset: DomainDataset) -> dict[str, NDArray[np.generic]]:
    """Columns of a feature file beside the features, shape (n,) each.

    "y", "domain" and, if there are any, "split", "group" and "file". Classes, domains and groups are indices.
    """
    columns: dict[str, NDArray[np.generic]] = {
        "y": torch.cat([part.rows.targets for part in parts]).cpu().numpy(),
        "domain": np.repeat([part.domain for part in parts], [len(part.rows) for part in parts]),
    }
    if all(part.split is not None for part in parts):
        columns["split"] = np.repeat([str(part.split) for part in parts], [len(part.rows) for part in parts])
    if dataset.group_names is not None:
        groups = [part.rows.groups for part in parts if part.rows.groups is not None]
        columns["group"] = torch.cat(groups).cpu().numpy()
    if all(isinstance(part.rows.inputs, Items) for part in parts):
        columns["file"] = np.array([name for part in parts for name in part.rows.inputs.names])  # type: ignore[union-attr]
    return columns


def _rows_digest(parts: Sequence[_Part], columns: dict[str, NDArray[np.generic]]) -> str:
    """Digest of labels, names and the content of rows that are in memory."""
    digest = hashlib.sha256()
    for name, column in columns.items():
        digest.update(name.encode())
        digest.update(column.tobytes())
    for part in parts:
        inputs = part.rows.inputs
        content = inputs.content() if isinstance(inputs, Items) else inputs.detach().cpu().numpy().tobytes()
        digest.update(content)
    return digest.hexdigest()


def _join(parts: Sequence[Split]) -> Split:
    if len(parts) == 1:
        return parts[0]
    inputs: list[Any] = [part.inputs for part in parts]
    groups = [part.groups for part in parts if part.groups is not None]
    return Split(
        type(inputs[0]).joined(inputs) if isinstance(inputs[0], Items) else torch.cat(inputs),
        torch.cat([part.targets for part in parts]),
        torch.cat(groups) if groups else None,
    )


def _sort_by_name(rows: Split) -> Split:
    if not isinstance(rows.inputs, Items):
        return rows
    names = rows.inputs.names
    return rows.rows(torch.tensor(sorted(range(len(names)), key=names.__getitem__), dtype=torch.long))
