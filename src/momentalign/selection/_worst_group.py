"""Worst-group selection, the rule of linear probing: a grid on one seed, its five best sets on more seeds."""

import pandas as pd

from momentalign.selection._sweep import Sweep

FINALISTS = 5

_KEYS = ["dataset", "setting", "algorithm"]
_COLUMNS = [
    "dataset",
    "algorithm",
    "test_domain",
    "trial",
    "hparams_seed",
    "run",
    "step",
    "validation",
    "test",
    "average",
    "setting",
]


def worst_group_candidates(sweep: Sweep) -> pd.DataFrame:
    """Worst-group accuracies of every finished run that did not diverge, at its last record, by the set's number."""
    records = sweep.records
    overall = records["domain"].isna() & records["metric"].isin(["worst_group_accuracy", "accuracy"])
    overall &= records["split"].isin(["val", "test"]) & records["group"].isna()
    records = records[overall]
    names = records["metric"].astype(str) + "/" + records["split"].astype(str)
    wide = records.assign(name=names).pivot_table(index=["run", "step"], columns="name", values="value", observed=True)
    wide = wide.reindex(columns=["worst_group_accuracy/val", "worst_group_accuracy/test", "accuracy/test"])
    last = wide.reset_index().sort_values("step", kind="stable").drop_duplicates("run", keep="last").set_index("run")
    last = last.dropna(subset=["worst_group_accuracy/val", "worst_group_accuracy/test"])
    last.index = last.index.astype(object)
    runs = sweep.finished()
    usable = runs.index.isin(last.index) & ~runs.index.isin(sweep.diverged().index)
    found = runs.loc[usable, ["dataset", "algorithm", "trial", "hparams_seed", "setting"]]
    numbers = last.reindex(found.index)
    return (
        found.assign(
            test_domain=None,
            run=found.index,
            step=numbers["step"].astype(int),
            validation=numbers["worst_group_accuracy/val"],
            test=numbers["worst_group_accuracy/test"],
            average=numbers["accuracy/test"],
        )
        .sort_values("hparams_seed", kind="stable")
        .reset_index(drop=True)[_COLUMNS]
    )


def finalists(candidates: pd.DataFrame) -> pd.DataFrame:
    """The sets that go on to more seeds: the best five by validation on the first trial, per data set and algorithm.

    Args:
        candidates: Of :func:`worst_group_candidates`.

    Returns:
        dataset, setting, algorithm and hparams_seed of the sets, best first; ties go to the set with the higher number.
    """
    first = candidates.groupby(_KEYS)["trial"].transform("min")
    grid = candidates[candidates["trial"] == first].iloc[::-1]
    ranked = grid.sort_values("validation", ascending=False, kind="stable")
    return ranked.groupby(_KEYS).head(FINALISTS)[[*_KEYS, "hparams_seed"]].reset_index(drop=True)


def select_worst_group(sweep: Sweep) -> pd.DataFrame:
    """The set with the best mean validation over trials, among those that went on to as many trials as any did.

    Args:
        sweep: Runs and records.

    Returns:
        A row for each of its trials.
    """
    listed = worst_group_candidates(sweep)
    sets = [*_KEYS, "hparams_seed"]
    competing = listed.merge(finalists(listed), on=sets)
    score = competing.groupby(sets, sort=False)["validation"].agg(["mean", "size"]).reset_index()
    # A set that met fewer seeds has had fewer chances to look bad.
    score = score[score["size"] == score.groupby(_KEYS)["size"].transform("max")]
    best = score.sort_values("mean", kind="stable").drop_duplicates(_KEYS, keep="last")
    chosen = competing.merge(best[sets], on=sets)
    return chosen.sort_values([*_KEYS, "trial"]).reset_index(drop=True)[_COLUMNS]
