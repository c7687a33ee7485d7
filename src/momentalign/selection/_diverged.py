"""Runs that diverged: from where the loss is not a number, the weights are none, and accuracies do not count."""

import re
from typing import Any

import numpy as np
import pandas as pd

_STOPPED = re.compile(r"The loss stopped being a number at step (\d+)")


def diverged_steps(runs: pd.DataFrame, records: pd.DataFrame) -> pd.Series:
    """Where runs diverged.

    Args:
        runs: One row a run.
        records: One row a number.

    Returns:
        Step of the first record whose loss is not finite, or that the run's error names; by run, in the order of the
        runs, without those that did not diverge.
    """
    odd = records[~np.isfinite(records["value"].to_numpy())]
    odd = odd[(odd["metric"] == "loss") & odd["domain"].isna() & odd["split"].isna()]
    seen = odd.groupby("run", observed=True)["step"].min()
    steps = stopped_steps(runs) | {run: int(step) for run, step in seen.items()}
    found = {run: steps[run] for run in runs.index if run in steps}
    return pd.Series(list(found.values()), index=pd.Index(list(found), name="run", dtype="object"), dtype="int64")


def stopped_steps(runs: pd.DataFrame) -> dict[Any, int]:
    """Where runs failed because they diverged, by run: probes by SGD end there, and write no record of it."""
    failed = runs.loc[runs["status"] == "failed", "error"]
    found = {run: _STOPPED.match(str(error)) for run, error in failed.items()}
    return {run: int(match[1]) for run, match in found.items() if match is not None}
