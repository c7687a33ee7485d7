"""A run's folder: what it is, its records, its checkpoint. Everything is written whole or not at all."""

import json
import math
from collections.abc import Iterable
from io import SEEK_END, BufferedRandom
from pathlib import Path
from typing import TypedDict

from momentalign._saved import checkpoint_of
from momentalign.data import DomainDataset
from momentalign.training._busy import is_busy, lock, release
from momentalign.training._config import RunConfig
from momentalign.training._run_json import check_same, describe_run, now, read_run, versions, write_json


class Record(TypedDict, total=False):
    """One number of a run; `group` only where it is one group's."""

    step: int
    domain: str | None
    split: str | None
    metric: str
    value: float | None
    group: str


class RunFolder:
    """Writes `run.json` and `records.jsonl` of one run; one process at a time.

    Args:
        path: The folder; it is made if it does not exist.
        config: What is run there.
        stamp: Of the data that it is run on, where they lie at a path.

    Raises:
        ValueError: The folder holds something else, or another process trains there.
    """

    def __init__(self, path: Path, config: RunConfig, stamp: str | None = None) -> None:
        self.path = path
        self.config = config
        self.stamp = stamp
        if path.exists() and not path.is_dir():
            raise ValueError(f"'--out' should name a folder, but {path} is a file.")
        self.about = read_run(path) if (path / "run.json").exists() else {}
        if self.about and self.about["hash"] != config.hash() and _is_empty(path):
            self.about = {}  # it ended before its first record: nothing is lost
        elif self.about:
            check_same(path, self.about, config, stamp)
        elif path.is_dir() and not all(map(_left_by_a_kill, path.iterdir())):
            raise ValueError(f"{path} holds something that is no run. Name a new or an empty folder.")
        self._records: BufferedRandom | None = None

    @property
    def finished(self) -> bool:
        """Whether the run went to its end."""
        return bool(self.about) and self.about["status"] == "finished"

    def begin(self, data: DomainDataset, device: str, records_bytes: int) -> None:
        """Say that the run runs, and cut its records back to those that its checkpoint knows.

        Args:
            data: What is trained on.
            device: Name of the device.
            records_bytes: Length of the records to keep.

        Raises:
            ValueError: There are fewer, or another process trains there.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        file = (self.path / "records.jsonl").open("a+b")
        lock(file, self.path)
        if (self.path / "records.jsonl").is_file():  # a link to a device cannot be cut
            length = file.seek(0, SEEK_END)
            if length < records_bytes:
                file.close()
                release(self.path)
                raise ValueError(
                    f"{self.path / 'records.jsonl'} should have the {records_bytes} bytes that its checkpoint knows, "
                    f"but has {length}: records were lost. Remove {self.path} and run the same again."
                )
            file.truncate(records_bytes)
        self._records = file
        self.about = describe_run(self.config, data.names) | {
            "num_classes": data.num_classes,
            "classes": list(data.classes),
            "started": self.about.get("started", now()),
            "versions": versions(),
            "device": device,
            "data": self.stamp,
        }
        write_json(self.path / "run.json", self.about)

    def append(self, records: Iterable[Record]) -> int:
        """Add records at the end.

        Args:
            records: What to add; numbers that are not finite are written as null.

        Returns:
            Length of the file afterwards.
        """
        assert self._records is not None, "begin() comes first"
        lines = "".join(json.dumps(_finite(record), ensure_ascii=False) + "\n" for record in records)
        self._records.write(lines.encode())
        self._records.flush()
        return self._records.tell()

    def finish(self) -> None:
        """Say that the run went to its end."""
        self.about.pop("disk_full", None)
        self.about |= {"status": "finished", "error": None, "finished": now()}
        write_json(self.path / "run.json", self.about)

    def fail(self, error: str, *, disk_full: bool = False) -> None:
        """Say what ended the run, where the disk lets us; a run that did not begin changes nothing.

        Args:
            error: One line.
            disk_full: Whether it was for want of room: then a sweep goes on with the run unasked.
        """
        if self._records is None:  # another process may be training here
            return
        self.about |= {"status": "failed", "error": error} | ({"disk_full": True} if disk_full else {})
        try:
            write_json(self.path / "run.json", self.about)
        except OSError:  # a full disk, perhaps the very error to be written
            return

    def close(self) -> None:
        """Let go of the records."""
        if self._records is not None:
            records, self._records = self._records, None
            release(self.path)
            try:
                records.close()
            except OSError:  # what could not be written was reported when it was
                return


def read_records(folder: Path) -> list[Record]:
    """Read a run's records; a last line that a crash tore is left out.

    Args:
        folder: A run's folder.

    Returns:
        The records, in order.
    """
    content = (folder / "records.jsonl").read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def _is_empty(path: Path) -> bool:
    """Whether a run has neither records nor weights, and nobody is about to write some."""
    records = path / "records.jsonl"
    recorded = records.exists() and records.stat().st_size > 0
    return not recorded and not checkpoint_of(path).exists() and not is_busy(path)


def _left_by_a_kill(path: Path) -> bool:
    """Whether a file is what a run that ended before its first `run.json`, on a full disk perhaps, leaves."""
    if path.name == "records.jsonl":
        return path.is_file() and path.stat().st_size == 0
    return path.name.startswith(".run.json.") and path.suffix == ".tmp"


def _finite(record: Record) -> Record:
    value = record.get("value")
    return record if value is None or math.isfinite(value) else {**record, "value": None}
