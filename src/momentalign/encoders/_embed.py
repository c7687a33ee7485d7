"""Compute the features of a data set and save them to a parquet file."""

import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from momentalign._extras import require
from momentalign._files import atomic_file, remove_folder
from momentalign._outputs import check_output
from momentalign._validation import check_count
from momentalign.data import DomainDataset, Split
from momentalign.encoders._base import Encoder
from momentalign.encoders._feature_rows import dataset_parts, encoder_digest, row_columns, rows_digest
from momentalign.encoders._reading import read_rows
from momentalign.tables import METADATA_KEY, read_parquet_metadata

_FORMAT = 1
_SAVE_SECONDS = 20.0
"""Time between saves: work that a kill may lose."""
_ROW_GROUP = 16384

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
    """Compute the features of all rows of a data set and save them to a parquet file.

    The file has columns `x0`, `x1`, …, `y`, `domain` and, if there are any, `split`, `group` and `file`. Classes and
    groups are indices; their names are in the file's metadata. Rows are ordered by domain.

    "in" and "out" are drawn by a trial of the DomainBed protocol and do not belong to the data. By default they are
    left out and the rows sorted by name, so that every trial gives the same file.

    Until the file is complete, finished features are saved in a folder beside it (`features.parquet.parts`), from which
    an interrupted call with the same rows and weights is resumed. A finished file is left unchanged, and refused if it
    is of another data set or encoder.

    Args:
        dataset: Any data set.
        encoder: An encoder for its kind of rows; it is put into evaluation mode and moved to the device.
        out: A .parquet file.
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
    """The work of :func:`embed`, whose extent is known before it starts; arguments as there.

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
    ) -> None:
        check_count("batch_size", batch_size, 1)
        check_count("workers", workers, 0)
        self.out = Path(out)
        check_output(self.out, (".parquet",))
        _pyarrow()
        self._encoder, self._batch_size, self._workers = encoder, batch_size, workers
        self._device = torch.device(device)
        self._parts = dataset_parts(dataset, splits)
        self._columns = row_columns(self._parts, dataset)
        digests = rows_digest(self._parts, self._columns), encoder_digest(encoder)
        plan = {
            "format": _FORMAT,
            "data set": {"name": dataset.name, "sha256": digests[0]},
            "encoder": {"name": encoder.source, "sha256": digests[1]},
        }
        self._about = {"plan": plan, "classes": dataset.classes, "domains": dataset.names}
        if dataset.group_names is not None:
            self._about["group_names"] = dataset.group_names
        # Domains are few and read by people: names instead of indices.
        self._columns["domain"] = np.array(dataset.names, dtype=np.str_)[self._columns["domain"].astype(np.int64)]
        self.rows = sum(len(part.rows) for part in self._parts)
        self._folder = self.out.with_name(f"{self.out.name}.parts") / "-".join(digest[:8] for digest in digests)
        self._finished = self.out.exists()
        if self._finished:
            _check_plan(read_plan(self.out), plan, self.out)
        self.done = self.rows if self._finished else self._saved()[1]

    def run(self, progress: _Progress | None = None) -> Path:
        """Compute the remaining features and return the path of the file."""
        report = progress or (lambda done, total: None)
        report(self.done, self.rows)
        if not self._finished:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._compute(report)
            self._merge()
            self._finished = True
        remove_folder(self._folder.parent)  # also what a kill left
        return self.out

    def _compute(self, report: _Progress) -> None:
        """Save the remaining features in files of consecutive rows."""
        pending: list[Tensor] = []
        saved = time.monotonic()
        try:
            for features in self._remaining():
                pending.append(features)
                report(self.done + sum(map(len, pending)), self.rows)
                if time.monotonic() - saved > _SAVE_SECONDS:
                    pending, ready = [], pending
                    self._save(torch.cat(ready))
                    saved = time.monotonic()
        finally:
            if pending:  # also after an error or an interruption
                self._save(torch.cat(pending))

    def _remaining(self) -> Iterator[Tensor]:
        skip = self.done
        for part in self._parts:
            if skip < len(part.rows):
                yield from self._embed(part.rows.rows(torch.arange(skip, len(part.rows))))
            skip = max(0, skip - len(part.rows))

    def _embed(self, rows: Split) -> Iterator[Tensor]:
        """Features of rows on the host, batch by batch."""
        encoder, preprocessing = self._encoder.to(self._device).eval(), self._encoder.preprocessing
        for raw in self._batches(preprocessing.open(rows.inputs), len(rows)):
            with torch.inference_mode():
                inputs = preprocessing.to_inputs(preprocessing.trim(raw).to(self._device, non_blocking=True))
                features = encoder(inputs)
            yield features.float().cpu()

    def _batches(self, rows: Tensor | Dataset[Tensor], number: int) -> Iterator[Tensor]:
        if isinstance(rows, Tensor):
            yield from rows.split(self._batch_size)
        else:
            batches = torch.arange(number).split(self._batch_size)
            for _, raw in read_rows(rows, batches, workers=self._workers, pin_memory=self._device.type == "cuda"):
                yield raw

    def _saved(self) -> tuple[list[Path], int]:
        """Files of consecutive rows from the first on, named by the first row and the one after the last."""
        starts = {int(path.stem.partition("-")[0]): path for path in self._folder.glob("[0-9]*.parquet")}
        files, rows = [], 0
        while rows in starts:
            files.append(starts[rows])
            rows = int(starts[rows].stem.partition("-")[2])
        return files, rows

    def _save(self, features: Tensor) -> None:
        """Save the features of the next rows, shape (m, d)."""
        pa, parquet = _pyarrow()
        rows = slice(self.done, self.done + len(features))
        numbers = {f"x{k}": np.ascontiguousarray(column) for k, column in enumerate(features.numpy().T)}
        others = {name: pa.array(column[rows].tolist()) for name, column in self._columns.items()}
        table = pa.table(numbers | others).replace_schema_metadata({METADATA_KEY: json.dumps(self._about)})
        path = self._folder / f"{rows.start:012d}-{rows.stop:012d}.parquet"
        with _resume_hint(path), atomic_file(path) as temporary:
            parquet.write_table(table, temporary, use_dictionary=["domain", "split"])
        self.done = rows.stop

    def _merge(self) -> None:
        """Copy the saved files to one."""
        pa, parquet = _pyarrow()
        files, _ = self._saved()
        # Written in the folder that is removed at the end: a kill leaves no large temporary file for good.
        with _resume_hint(self.out), atomic_file(self.out, temporary_folder=self._folder) as temporary:
            schema = parquet.read_schema(files[0])
            with parquet.ParquetWriter(temporary, schema, use_dictionary=["domain", "split"]) as writer:
                pending: list[Any] = []
                for path in files:
                    pending.append(parquet.read_table(path))
                    if path == files[-1] or sum(map(len, pending)) >= _ROW_GROUP:
                        writer.write_table(pa.concat_tables(pending))
                        pending = []


def read_plan(path: Path) -> dict[str, Any]:
    """Read the plan of a feature file: format, data set and encoder; empty for a file written by something else."""
    plan: Any = None
    if path.suffix == ".parquet":
        _pyarrow()
        with suppress(ValueError, OSError):  # not a parquet file, or with other metadata of that name
            plan = read_parquet_metadata(path).get("plan")
    return plan if isinstance(plan, dict) else {}


def _check_plan(stored: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Raise ValueError if the features at `path` belong to another plan."""
    for what in ("encoder", "data set"):
        try:
            theirs, digest = stored[what]["name"], stored[what]["sha256"]
        except (KeyError, TypeError):
            raise ValueError(
                f"{path} holds no features that momentalign wrote. Remove it, or choose another name with '--out'."
            ) from None
        if digest != wanted[what]["sha256"]:
            ours = wanted[what]["name"]
            also = f"also called '{ours}', with other rows, splits or weights"
            which = f"'{theirs}', not '{ours}'" if theirs != ours else also
            raise ValueError(
                f"{path} holds features of another {what} ({which}). Remove it, or choose another name with '--out'."
            )


@contextmanager
def _resume_hint(path: Path) -> Iterator[None]:
    """Name the file and tell how to resume in an error of the disk."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error}. Features saved before are kept; free some space and run the same "
            "command again to resume."
        ) from None


def _pyarrow() -> tuple[Any, Any]:
    parquet = require("pyarrow.parquet", "Parquet files need", extra="cli")
    return importlib.import_module("pyarrow"), parquet
