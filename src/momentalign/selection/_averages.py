"""Averaged weights as runs of their own: "cma" with `--average sma` is also "cma+sma"."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from momentalign.runs import AVERAGED, Sweep

if TYPE_CHECKING:
    pass


def with_averages(sweep: Sweep) -> Sweep:
    """Split runs that recorded averaged weights beside the raw ones into two.

    The second one has the metrics that start with `averaged_`, without the prefix. Its name and its algorithm end in
    "+" and the kind of average, and its folder is that of the first. It diverged where the first one did.

    Args:
        sweep: Runs and records.

    Returns:
        The same sweep if it has no such runs, or they are split already.
    """
    import pandas as pd

    records = sweep.records
    names = {
        name: name.removeprefix(AVERAGED) for name in records["metric"].cat.categories if name.startswith(AVERAGED)
    }
    if not names:
        return sweep
    averaged = records["metric"].isin(names)
    owners = sweep.runs[sweep.runs.index.isin(records.loc[averaged, "run"])]
    kinds = [str(config.get("average", "average")) for config in owners["config"]]
    index = [f"{run}+{kind}" for run, kind in zip(owners.index, kinds, strict=True)]
    algorithms = [f"{name}+{kind}" for name, kind in zip(owners["algorithm"], kinds, strict=True)]
    added = owners.assign(algorithm=algorithms).set_axis(pd.Index(index, name="run", dtype="object"))
    position = dict(zip(sweep.runs.index, range(len(sweep.runs)), strict=True))
    places = [*position.values(), *(position[run] + 0.5 for run in owners.index)]
    runs = pd.concat([sweep.runs, added]).iloc[pd.Series(places).argsort(kind="stable")]
    losses = (records["metric"] == "loss") & records["domain"].isna() & records["run"].isin(owners.index)
    copied = records[averaged | losses]
    copied = copied.assign(run=copied["run"].astype(object).map(dict(zip(owners.index, index, strict=True))))
    copied = copied.assign(metric=copied["metric"].astype(object).replace(names))
    both = pd.concat([records[~averaged].astype({"run": object, "metric": object}), copied], ignore_index=True)
    both = both.assign(run=pd.Categorical(both["run"], categories=runs.index), metric=both["metric"].astype("category"))
    return replace(sweep, runs=runs, records=both)
