"""Features of a data set, computed once and kept in a file."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from momentalign.data import DomainDataset, Split
from momentalign.encoders._base import Encoder
from momentalign.encoders._embed_rows import columns_of, fingerprint, parts_of
from momentalign.encoders._feature_files import check_path, read_plan, write_features
from momentalign.encoders._reading import read_rows
from momentalign.encoders._shards import Shards, check_plan
from momentalign.encoders._texts import TextPreprocessing

FORMAT = 1
_SECONDS = 20.0
"""Work that a kill may lose."""
_NO_MATTER = ("source", "transformers", "keep_statistics")
"""What an encoder's description says that changes none of its features in evaluation mode."""

Progress = Callable[[int, int], None]


def embed(
    dataset: DomainDataset,
    encoder: Encoder,
    out: str | Path,
    *,
    batch_size: int = 64,
    device: str | torch.device = "cpu",
    workers: int = 0,
    splits: bool | None = None,
    progress: Progress | None = None,
) -> Path:
    """Compute the features of all rows of a data set and write them to a file.

    The file has columns `x0`, `x1`, … (npz: a matrix `X`), `y`, `domain` and, where there are any, `split`, `group` and
    `file`. Classes and groups are indices, domains too in an npz file; their names are in the file's metadata (npz:
    arrays `classes`, `domains`, `group_names`). Rows come domain by domain.

    "in" and "out" are drawn by a trial of the DomainBed protocol and do not belong to the data. They are left out
    unless asked for, and the rows are sorted by name, so that every trial gives the same file.

    Until the file is written, what is done is kept in a folder beside it (`features.parquet.parts`). A call that was
    interrupted goes on from there; a folder or a file of another data set or encoder is refused. A file that is
    finished already is left as it is.

    Args:
        dataset: What to embed.
        encoder: Of its kind of rows; it is put into evaluation mode and moved to the device.
        out: A .parquet or .npz file.
        batch_size: Rows at a time; it changes the features by rounding at most.
        device: Where to compute.
        workers: Processes that decode images; 0 decodes between batches.
        splits: Whether the file says which split a row is in; None says it where splits were published with the data.
        progress: Called with the number of rows that are done and of all rows.

    Returns:
        The file.
    """
    embedding = Embedding(dataset, encoder, out, batch_size=batch_size, device=device, workers=workers, splits=splits)
    return embedding.run(progress)


class Embedding:
    """The work that :func:`embed` does, to be looked at before it starts.

    Args:
        dataset: What to embed.
        encoder: Of its kind of rows.
        out: A .parquet or .npz file.
        batch_size: Rows at a time.
        device: Where to compute.
        workers: Processes that decode images.
        splits: Whether the file says which split a row is in.
        fewer_rows: Whether rows may have been left out since an earlier call, which unreadable files stopped; what that
            call left behind is then of no use and removed.

    Attributes:
        rows: Number of all rows.
        done: Number of those that an earlier call left behind.
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
        if batch_size < 1 or workers < 0:
            raise ValueError(f"'batch_size' should be at least 1 and 'workers' 0, but are {batch_size} and {workers}.")
        self.out = Path(out)
        check_path(self.out)
        self._dataset, self._encoder = dataset, encoder
        self._batch_size, self._device, self._workers = batch_size, torch.device(device), workers
        self._parts = parts_of(dataset, splits)
        self._columns = columns_of(self._parts, dataset)
        self._plan = {
            "format": FORMAT,
            "data set": {"name": dataset.name, "sha256": fingerprint(self._parts, self._columns)},
            "encoder": {"name": encoder.source, "sha256": _digest(encoder)},
        }
        self.rows = sum(len(part.rows) for part in self._parts)
        self._shards = Shards(self.out.with_name(f"{self.out.name}.parts"), self._plan, fewer_rows=fewer_rows)
        self._finished = self.out.exists()
        if self._finished:
            check_plan(read_plan(self.out), self._plan, self.out, "finished")
        self.done = self.rows if self._finished else self._shards.rows

    def seconds_left(self) -> float:
        """Estimate how long the remaining rows will take, from a few of them.

        Returns:
            Seconds, with decoding in this process.
        """
        if self.done == self.rows:
            return 0.0
        part = self._parts[0].rows
        size = min(len(part), self._batch_size if self._device.type == "cuda" else min(self._batch_size, 8))
        seconds = []
        for _ in range(3):  # the first pass allocates, and other work on the machine disturbs
            start = time.perf_counter()
            for _ in self._embed(part.rows(torch.arange(size)), workers=0):
                pass
            seconds.append(time.perf_counter() - start)
        return min(seconds) / size * (self.rows - self.done)

    def run(self, progress: Progress | None = None) -> Path:
        """Do what is left to do.

        Args:
            progress: Called with the number of rows that are done and of all rows.

        Returns:
            The file.
        """
        report = progress or (lambda done, total: None)
        report(self.done, self.rows)
        if self._finished:
            return self.out
        shards = self._shards.create()
        waiting: list[Tensor] = []
        saved = time.monotonic()
        try:
            for features in self._remaining():
                waiting.append(features)
                report(shards.rows + sum(map(len, waiting)), self.rows)
                if time.monotonic() - saved > _SECONDS:
                    waiting, ready = [], waiting
                    shards.append(torch.cat(ready).numpy())
                    saved = time.monotonic()
        finally:
            if waiting:  # also after an error or an interruption: what is computed is kept
                shards.append(torch.cat(waiting).numpy())
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
        """Features of rows, a batch at a time, on the host."""
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


def _digest(encoder: Encoder) -> str:
    """What the encoder computes, its weights included, wherever it came from."""
    config = {name: value for name, value in encoder.config().items() if name not in _NO_MATTER}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
