"""Writing a run's folder: `run.json` and `records.jsonl`."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from typing import Any

from momentalign._files import DiskFullError, is_disk_full, is_leftover, remove_leftovers, sync
from momentalign._model_file import CHECKPOINT, MODEL, check_version, model_path
from momentalign._outputs import check_folder
from momentalign.runs._config import RunConfig
from momentalign.runs._locks import LOCK, is_busy, lock, release
from momentalign.runs._records import Record
from momentalign.runs._run_json import (
    RunState,
    check_same,
    describe_failure,
    describe_run,
    now,
    read_run,
    versions,
    write_json,
)


class RunFolder:
    """Writes `run.json` and `records.jsonl` of one run; one process at a time.

    `stamp` is from :func:`data_stamp`. Raises ValueError if the folder holds something else.
    """

    def __init__(self, path: Path, config: RunConfig, stamp: str | None = None) -> None:
        self.path = path
        self.config = config
        self.stamp = stamp
        check_folder(path)
        self.info: dict[str, Any] = read_run(path) if (path / "run.json").exists() else {}
        if self.info and self.info.get("hash") != config.hash() and _is_empty(path):
            self.info = {}  # it ended before its first record: nothing is lost
        elif self.info:
            check_same(path, self.info, config, stamp)
            if not self.finished:
                check_version(path)
        elif path.is_dir() and not all(map(_left_by_a_kill, path.iterdir())):
            raise ValueError(f"{path} should be the folder of a run, but holds other files. Name a new or empty one.")
        self._records: BufferedRandom | None = None
        self._written = time.monotonic()

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return bool(self.info) and self.info["status"] is RunState.FINISHED

    def begin(
        self,
        *,
        domains: Iterable[str],
        classes: Sequence[str],
        device: str,
        records_bytes: int = 0,
        **more: Any,
    ) -> None:
        """Mark the run as running, and truncate its records to the `records_bytes` before its checkpoint.

        `more` are further keys of `run.json`. Raises BusyError if another process trains here.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock(self.path)
        remove_leftovers(self.path, "run.json", CHECKPOINT, MODEL)
        (self.path / MODEL).unlink(missing_ok=True)
        path = self.path / "records.jsonl"
        try:
            self._records = path.open("a+b")
            if path.is_file():  # a link to a device cannot be truncated
                self._records.truncate(records_bytes)
        except OSError:
            self.close()
            release(self.path)
            raise
        self.info = {
            **describe_run(self.config, domains),
            "num_classes": len(classes),
            "classes": list(classes),
            "started": self.info.get("started", now()),
            "seconds": self.info.get("seconds", 0.0),
            "versions": versions(),
            "device": device,
            "data": self.stamp,
            **more,
        }
        self._write_info()

    def append(self, records: Iterable[Record]) -> int:
        """Append records and return the size of the file; values that are not finite are written as null."""
        assert self._records is not None, "begin() comes first"
        lines = "".join(json.dumps(_finite(record), ensure_ascii=False) + "\n" for record in records)
        self._records.write(lines.encode())
        self._records.flush()
        return self._records.tell()

    def sync_records(self) -> int:
        """Wait until the records are on disk; returns their size in bytes."""
        path = self.path / "records.jsonl"
        if not path.is_file():  # a link to a device
            return 0
        sync(path)
        return path.stat().st_size

    def finish(self, **more: Any) -> None:
        """Mark the run as finished, and remove its checkpoint; `more` are further keys of `run.json`."""
        self.sync_records()
        self.info |= {"status": RunState.FINISHED, "error": None, "disk_full": False, "finished": now(), **more}
        self._write_info()
        (self.path / CHECKPOINT).unlink(missing_ok=True)

    def fail(self, error: Exception | str) -> None:
        """Mark the run as failed, unless it never began: another process may be training here."""
        if self._records is not None:
            self.info |= describe_failure(error)
            with suppress(OSError):  # a full disk, which may be the error to record
                self._write_info()

    @contextmanager
    def recording_failure(self, resume_note: Callable[[], str] = str) -> Iterator[None]:
        """Record an error of the block in `run.json`, and close the folder however the block ends.

        Raises DiskFullError where the disk is full, with a `resume_note` on where the run will resume.
        """
        try:
            yield
        except Exception as error:
            if not is_disk_full(error):
                self.fail(error)
                raise
            full = DiskFullError(
                f"The disk of {self.path} is full. Free some space and run the same command again{resume_note()}."
            )
            self.fail(full)
            raise full from None
        finally:
            self.close()

    def close(self) -> None:
        """Close the records and release the folder."""
        if self._records is not None:
            records, self._records = self._records, None
            with suppress(OSError):  # already reported when the write failed
                records.close()
                if self.info.get("status") is RunState.RUNNING:  # interrupted
                    self._write_info()
            release(self.path)

    def _write_info(self) -> None:
        """Write `run.json`, with the seconds in which the run was not paused."""
        before, self._written = self._written, time.monotonic()
        self.info["seconds"] = self.info.get("seconds", 0.0) + self._written - before
        write_json(self.path / "run.json", self.info)


def _is_empty(path: Path) -> bool:
    """Whether a run has neither records nor weights, and no process is about to write some."""
    records = path / "records.jsonl"
    recorded = records.exists() and records.stat().st_size > 0
    return not recorded and not model_path(path).exists() and not is_busy(path)


def _left_by_a_kill(path: Path) -> bool:
    """Whether a file was left by a run that was killed before its first `run.json`."""
    if path.name == "records.jsonl":
        return path.is_file() and path.stat().st_size == 0
    return path.name == LOCK or is_leftover(path)


def _finite(record: Record) -> Record:
    value = record.get("value")
    return record if value is None or math.isfinite(value) else {**record, "value": None}
