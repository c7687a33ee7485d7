"""Worst-group selection, the rule of linear probing: a grid on one seed, its five best sets on more seeds.

:func:`best_sets` and :func:`best_set` are the rule; the rest applies it to the records of sweeps.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from momentalign.runs import Sweep
from momentalign.selection._averages import with_averages

FINALISTS = 5

_KEYS = ["dataset", "setting", "algorithm"]
CHOICE_COLUMNS = ["dataset", "algorithm", "test_domain", "trial", "hparams_seed", "run", "step"]
_COLUMNS = [*CHOICE_COLUMNS, "validation", "test", "average", "setting"]


def best_sets(validation: Mapping[int, float], top: int = FINALISTS) -> list[int]:
    """Numbers of the sets with the best validation on one seed, best first; ties go to the higher number."""
    return sorted(validation, key=lambda number: (validation[number], number), reverse=True)[:top]


def best_set(validation: Mapping[int, Sequence[float]]) -> int:
    """Number of the set with the best mean over seeds, among those with the most seeds; ties go to the higher number.

    A set with fewer seeds has had fewer chances to look bad.
    """
    most = max(len(values) for values in validation.values())
    means = {number: float(np.mean(values)) for number, values in validation.items() if len(values) == most}
    return best_sets(means, 1)[0]


def worst_group_candidates(sweep: Sweep) -> pd.DataFrame:
    """Worst-group accuracies of every finished run that did not diverge, at its last record, by the set's number."""
    sweep = with_averages(sweep)
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
    chosen = runs.loc[usable, ["dataset", "algorithm", "trial", "hparams_seed", "setting"]]
    numbers = last.reindex(chosen.index)
    return (
        chosen.assign(
            test_domain=None,
            run=chosen.index,
            step=numbers["step"].astype(int),
            validation=numbers["worst_group_accuracy/val"],
            test=numbers["worst_group_accuracy/test"],
            average=numbers["accuracy/test"],
        )
        .sort_values("hparams_seed", kind="stable")
        .reset_index(drop=True)[_COLUMNS]
    )


def finalists(candidates: pd.DataFrame) -> pd.DataFrame:
    """Sets that are run on more seeds: dataset, setting, algorithm and hparams_seed, best first in each algorithm."""
    rows = []
    for keys, runs in candidates.groupby(_KEYS):
        first = runs[runs["trial"] == runs["trial"].min()]
        rows += [
            (*keys, number) for number in best_sets(dict(zip(first["hparams_seed"], first["validation"], strict=True)))
        ]
    return pd.DataFrame(rows, columns=[*_KEYS, "hparams_seed"])


def select_worst_group(sweep: Sweep) -> pd.DataFrame:
    """Select the set with the best mean validation over trials, among the finalists; a row for each of its trials."""
    listed = worst_group_candidates(sweep)
    sets = [*_KEYS, "hparams_seed"]
    best = [
        (*keys, best_set({number: values.tolist() for number, values in runs.groupby("hparams_seed")["validation"]}))
        for keys, runs in listed.merge(finalists(listed), on=sets).groupby(_KEYS)
    ]
    chosen = listed.merge(pd.DataFrame(best, columns=sets), on=sets)
    return chosen.sort_values([*_KEYS, "trial"]).reset_index(drop=True)[_COLUMNS]
