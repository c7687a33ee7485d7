"""Averaged weights as runs of their own: "cma" with `--average sma` is also "cma+sma"."""

from dataclasses import replace

from momentalign.runs import AVERAGED, Sweep


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
    kinds = "+" + owners["config"].map(lambda config: str(config.get("average", "average")))
    renamed = dict(zip(owners.index, owners.index + kinds, strict=True))
    added = owners.assign(algorithm=owners["algorithm"] + kinds).rename(index=renamed)
    order = [name for run in sweep.runs.index for name in (run, renamed.get(run)) if name is not None]
    runs = pd.concat([sweep.runs, added]).loc[order]
    losses = (records["metric"] == "loss") & records["domain"].isna() & records["run"].isin(owners.index)
    records = records.astype({"run": object, "metric": object})
    copied = records[averaged | losses]
    copied = copied.assign(run=copied["run"].map(renamed), metric=copied["metric"].replace(names))
    both = pd.concat([records[~averaged], copied], ignore_index=True)
    both = both.assign(run=pd.Categorical(both["run"], categories=runs.index), metric=both["metric"].astype("category"))
    return replace(sweep, runs=runs, records=both)
