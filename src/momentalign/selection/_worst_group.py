"""Selection for the worst group, as in linear probing: a grid on one seed, its five best sets on more seeds.

:func:`best_sets` and :func:`best_set` are the rule; the rest applies it to the records of sweeps. Sets are ranked by
one of :data:`GROUP_RULES`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from momentalign._validation import check_choice
from momentalign.runs import Sweep
from momentalign.selection._averages import with_averages

GROUP_RULES: Mapping[str, tuple[str, str]] = {
    "worst-group": ("worst_group_accuracy", "val"),
    "worst-class": ("worst_class_accuracy", "val"),
    "train-groups": ("worst_group_accuracy", "train"),
}
"""Metric and split that each rule for data with groups ranks by.

"worst-group" needs the attributes of the validation rows, "train-groups" those of the training rows alone, and
"worst-class" none.
"""

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


def worst_group_candidates(sweep: Sweep, rule: str = "worst-group") -> pd.DataFrame:
    """Accuracies of every finished run that did not diverge, at its last record, by the set's number.

    `validation` is what the rule ranks by; `test` is the worst group's accuracy under every rule.
    """
    sweep = with_averages(sweep)
    records = sweep.records
    ranked = "/".join(GROUP_RULES[check_choice("rule", rule, GROUP_RULES)])
    wanted = list(dict.fromkeys([ranked, "worst_group_accuracy/test", "accuracy/test"]))
    overall = records["domain"].isna() & records["group"].isna() & records["split"].notna()
    overall &= records["metric"].isin([name.split("/")[0] for name in wanted])
    records = records[overall]
    names = records["metric"].astype(str) + "/" + records["split"].astype(str)
    records = records.assign(name=names)[names.isin(wanted)]
    wide = records.pivot_table(index=["run", "step"], columns="name", values="value", observed=True)
    wide = wide.reindex(columns=wanted)
    last = wide.reset_index().sort_values("step", kind="stable").drop_duplicates("run", keep="last").set_index("run")
    last = last.dropna(subset=[ranked, "worst_group_accuracy/test"])
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
            validation=numbers[ranked],
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


def select_worst_group(sweep: Sweep, rule: str = "worst-group") -> pd.DataFrame:
    """Select the set with the best mean validation over trials, among the finalists; a row for each of its trials."""
    listed = worst_group_candidates(sweep, rule)
    sets = [*_KEYS, "hparams_seed"]
    best = [
        (*keys, best_set({number: values.tolist() for number, values in runs.groupby("hparams_seed")["validation"]}))
        for keys, runs in listed.merge(finalists(listed), on=sets).groupby(_KEYS)
    ]
    chosen = listed.merge(pd.DataFrame(best, columns=sets), on=sets)
    return chosen.sort_values([*_KEYS, "trial"]).reset_index(drop=True)[_COLUMNS]
