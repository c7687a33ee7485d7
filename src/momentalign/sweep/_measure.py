"""What one run will take."""

import dataclasses
import time
from typing import NamedTuple

from momentalign.runs import RunConfig
from momentalign.training import estimate_run

_LINE = 100  # bytes of a line of records
_STEP_LEVEL = 8  # lines of a record that belong to no domain


class Cost(NamedTuple):
    """What a run takes: seconds, bytes of its records, bytes of its weights."""

    seconds: float
    records: int
    weights: int


def measure(config: RunConfig, *, root: str | None, accelerator: str, skip_bad_files: bool = False) -> Cost:
    """Time and space of a run, from a few of its steps; nothing is written.

    Args:
        config: The run.
        root: Data folder.
        accelerator: "cpu" or "cuda".
        skip_bad_files: Leave out images that cannot be decoded.

    Returns:
        The cost.
    """
    if config.setting == "probe":
        return _measure_probe(config)
    cost = estimate_run(config, root=root, accelerator=accelerator, skip_bad_files=skip_bad_files)
    return Cost(cost.seconds, cost.records * (_STEP_LEVEL + cost.splits) * _LINE, cost.weights)


def _measure_probe(config: RunConfig) -> Cost:
    """A whole fit to convergence, which takes seconds, or one epoch of SGD."""
    from momentalign.probing import run_probe

    epochs = config.hparams.get("epochs", 1)
    if epochs > 1:
        hparams = {**config.hparams, "epochs": 1}
        config = dataclasses.replace(config, hparams=hparams, steps=-(-config.steps // epochs))
    begin = time.monotonic()
    last = run_probe(config, None)
    seconds = epochs * (time.monotonic() - begin)
    records = epochs * (last[0]["step"] // config.record_every + 1)
    return Cost(seconds, records * len(last) * _LINE, 0)
