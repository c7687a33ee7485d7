"""Selection for the worst group, as in linear probing: a grid on one seed, its five best sets on more seeds.

:func:`finalists` and :func:`choose_sets` are the rule, for candidates from records (:func:`worst_group_candidates`) or
from fits in memory; sets are ranked by one of :data:`GROUP_RULES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from momentalign._validation import check_choice
from momentalign.runs import Sweep
from momentalign.selection._averages import with_averages

if TYPE_CHECKING:
    import pandas as pd

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
_SETS = [*_KEYS, "hparams_seed"]
CHOICE_COLUMNS = ["dataset", "algorithm", "test_domain", "trial", "hparams_seed", "run", "step"]
_COLUMNS = [*CHOICE_COLUMNS, "validation", "test", "average", "setting"]


def worst_group_candidates(sweep: Sweep, rule: str = "worst-group") -> pd.DataFrame:
    """Accuracies of every finished run that did not diverge, at its last record, by the set's number.

    `validation` is what the rule ranks by; `test` is the worst group's accuracy under every rule.
    """
    sweep = with_averages(sweep)
    records, keys = sweep.records, ["run", "step", "metric", "split"]
    wanted = {
        "validation": GROUP_RULES[check_choice("rule", rule, GROUP_RULES)],
        "test": ("worst_group_accuracy", "test"),
        "average": ("accuracy", "test"),
    }
    overall = records[records["domain"].isna() & records["group"].isna() & records["split"].notna()]
    overall = overall.drop_duplicates(keys, keep="last").astype({"run": object, "metric": object, "split": object})
    wide = overall.set_index(keys)["value"].unstack(["metric", "split"]).reindex(columns=list(wanted.values()))
    wide = wide.set_axis(list(wanted), axis=1).dropna(how="all").reset_index("step")
    last = wide.groupby(level="run").tail(1).dropna(subset=["validation", "test"])
    runs = sweep.finished().drop(sweep.diverged().index, errors="ignore")
    found = runs[["dataset", "algorithm", "trial", "hparams_seed", "setting"]].join(last, how="inner")
    found = found.assign(test_domain=None, run=found.index, step=found["step"].astype(int))
    return found.sort_values("hparams_seed", kind="stable").reset_index(drop=True)[_COLUMNS]


def finalists(candidates: pd.DataFrame, top: int = FINALISTS) -> pd.DataFrame:
    """Sets that are run on more seeds: dataset, setting, algorithm and hparams_seed, best first in each algorithm."""
    first = candidates.groupby(_KEYS)["trial"].transform("min") == candidates["trial"]
    return (
        _ranked(candidates[first].drop_duplicates(_SETS, keep="last"))
        .groupby(_KEYS)
        .head(top)[_SETS]
        .reset_index(drop=True)
    )


def choose_sets(candidates: pd.DataFrame) -> pd.DataFrame:
    """Rows of the set with the best mean validation over trials, among the finalists with the most trials.

    A set with fewer trials has had fewer chances to look bad.
    """
    sets = candidates.groupby(_SETS, as_index=False)
    means = sets.agg(validation=("validation", lambda values: values.to_numpy().mean()), trials=("trial", "size"))
    most = means.groupby(_KEYS)["trials"].transform("max") == means["trials"]
    best = _ranked(means[most]).drop_duplicates(_KEYS)
    return candidates.merge(best[_SETS], on=_SETS).sort_values([*_KEYS, "trial"]).reset_index(drop=True)


def select_worst_group(sweep: Sweep, rule: str = "worst-group") -> pd.DataFrame:
    """Select the set with the best mean validation over trials, among the finalists; a row for each of its trials."""
    listed = worst_group_candidates(sweep, rule)
    return choose_sets(listed.merge(finalists(listed), on=_SETS))[_COLUMNS]


def _ranked(sets: pd.DataFrame) -> pd.DataFrame:
    """Best validation first in each algorithm; ties go to the higher number."""
    return sets.sort_values([*_KEYS, "validation", "hparams_seed"], ascending=[True] * len(_KEYS) + [False, False])
