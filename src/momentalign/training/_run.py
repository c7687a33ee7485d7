"""One run: from a configuration to a folder of records and weights, on one device or several."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from momentalign._errors import describe_error
from momentalign._model_file import CHECKPOINT
from momentalign.data import DomainDataset
from momentalign.runs import Record, RunConfig, RunFolder, data_stamp, read_records
from momentalign.training._checkpoint import find_position, finish_trained
from momentalign.training._devices import launch, make_fabric
from momentalign.training._loop import train
from momentalign.training._options import RunOptions
from momentalign.training._steps import check_divisible


def run(
    config: RunConfig,
    folder: str | Path | None,
    *,
    data: DomainDataset | None = None,
    **options: Any,
) -> list[Record]:
    """Train. Resumes an interrupted run of the same configuration; returns a finished one unchanged.

    Args:
        config: What to run.
        folder: Where records and weights go; None writes nothing.
        data: The data set, if `load_dataset` does not find it by the name `config.dataset`.
        **options: See :class:`RunOptions`. With several devices `progress` has to be picklable.

    Returns:
        The records of the last step.

    Raises:
        DiskFullError: The disk is full; the run can be resumed.
    """
    chosen = RunOptions(**options)
    if chosen.loggers and folder is None:
        raise ValueError("'loggers' need a folder for the run, but 'folder' is None.")
    stamp = None if data is not None else data_stamp(config.dataset)
    target = None if folder is None else RunFolder(Path(folder), config, stamp)
    if target is not None and (target.finished or finish_trained(target)):
        (target.path / CHECKPOINT).unlink(missing_ok=True)  # left by a kill after the end
        return [record for record in read_records(target.path) if record["step"] == config.steps - 1]
    check_divisible(config.hparams["batch_size"], chosen.devices)
    fabric = make_fabric(devices=chosen.devices, accelerator=chosen.accelerator, precision=config.precision)
    last: list[Record] = launch(fabric, partial(_guarded, config=config, folder=target, data=data, options=chosen))
    return last


def _guarded(
    fabric: Any, config: RunConfig, folder: RunFolder | None, data: DomainDataset | None, options: RunOptions
) -> list[Record]:
    """Train, and record in the run's folder how it ended."""

    def resume_note() -> str:
        return "" if folder is None else f": it resumes at step {find_position(folder.path).step}"

    with nullcontext() if folder is None else folder.recording_failure(resume_note):
        try:
            records = train(fabric, config, folder, data, options)
        except Exception as error:
            if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
                hint = "Try a smaller batch_size with --set, or --precision bf16."
                raise ValueError(f"{describe_error(error)} {hint}") from None
            raise
        if fabric.world_size > 1:
            torch.distributed.destroy_process_group()  # or a thread of it may abort the interpreter's shutdown
        return records
