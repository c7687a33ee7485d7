"""Records of a run to TensorBoard, CSV, MLflow or Weights & Biases, through Lightning's loggers."""

import re
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from momentalign._extras import require_lightning
from momentalign._validation import check_choice
from momentalign.runs import Record, RunConfig, read_records

LOGGERS = ("csv", "tensorboard", "mlflow", "wandb")
"""Names of the loggers; the last two have settings of their own."""

_NEEDS = {"csv": ("lightning", "pytorch_lightning"), "tensorboard": ("tensorboard", "tensorboardX")}
_WORDS = {"+": "plus ", "%": " percent"}


def check_loggers(names: Sequence[str]) -> None:
    """Raise ValueError for an unknown name, ModuleNotFoundError where a logger's package is not installed."""
    for name in names:
        check_choice("logger", name, LOGGERS)
        packages = _NEEDS.get(name, (name,))
        if not any(find_spec(package) for package in packages):
            raise ModuleNotFoundError(
                f"The logger '{name}' needs {packages[0]}, which is not installed. Use pip install {packages[0]}.",
                name=packages[0],
            )


class RunLog(AbstractContextManager["RunLog"]):
    """Sends records to the loggers of a run, on the rank that writes.

    A resumed run writes its logs again from the first record, so that no step is missing or logged twice.

    Args:
        names: Of :data:`LOGGERS`.
        folder: The run's, with its earlier records; files go to its subfolders `csv`, `tensorboard` and `wandb`. None
            logs nothing.
    """

    def __init__(self, names: Sequence[str], folder: Path | None, config: RunConfig) -> None:
        self.loggers = [] if folder is None else [_make_logger(name, folder, config) for name in names]
        for logger in self.loggers:
            logger.log_hyperparams({**config.to_dict(), **config.hparams, "hash": config.hash()})
        if self.loggers and folder is not None:
            for _, records in groupby(read_records(folder), key=lambda record: record["step"]):
                self.record(list(records))

    def record(self, records: Sequence[Record]) -> None:
        """Log the numbers of one step."""
        values = {metric_name(record): record["value"] for record in records if record["value"] is not None}
        for logger in self.loggers:
            logger.log_metrics(values, step=records[0]["step"])
            logger.save()

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        """End the logs."""
        for logger in self.loggers:
            logger.finalize("success" if kind is None else "failed")


def metric_name(record: Record) -> str:
    """Name of a record's number, the same in all loggers: "accuracy/plus 90 percent/out" of domain "+90%".

    Without a domain it is "accuracy/all/out", without rows "step/loss": MLflow may store names as paths, in which no
    name can be both a folder and a file. All loggers accept letters, digits, spaces and ``-_./``.
    """
    if record["split"] is None:
        return f"step/{_plain(record['metric'])}"
    parts = [record["metric"], record["domain"] or "all", record["split"], record.get("group")]
    return "/".join(_plain(part) for part in parts if part is not None)


def _plain(text: str) -> str:
    return re.sub(r"[^\w\-. ]", lambda found: _WORDS.get(found[0], f"u{ord(found[0]):x}"), text, flags=re.ASCII).strip()


def _make_logger(name: str, folder: Path, config: RunConfig) -> Any:
    loggers = require_lightning("pytorch.loggers", "Loggers need")
    title = f"{config.algorithm} {config.hash()}"
    if name in ("csv", "tensorboard"):
        shutil.rmtree(folder / name, ignore_errors=True)
        kind = loggers.CSVLogger if name == "csv" else loggers.TensorBoardLogger
        return kind(folder, name="", version=name)
    if name == "mlflow":
        return loggers.MLFlowLogger(experiment_name="momentalign", run_name=title)
    return loggers.WandbLogger(project="momentalign", name=title, save_dir=folder)
