"""The selection rules: which run and which step counts.

A rule turns runs into candidates, one (validation, test) for each set of hyper-parameters; the best validation wins
within data set, algorithm, test domain and trial. The test number is the accuracy on the test domain's "in" split.
The rules that read only a run's own training domains are scores of records (:func:`record_scores`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from momentalign._types import Array
from momentalign._validation import check_choice, check_weight
from momentalign.runs import RunState, Sweep
from momentalign.selection._accuracies import FinishedRun, finished_runs, held_out_rows
from momentalign.selection._averages import with_averages
from momentalign.selection._scores import REACH, RECORD_RULES, best_record, record_scores
from momentalign.selection._worst_group import (
    CHOICE_COLUMNS,
    GROUP_RULES,
    select_worst_group,
    worst_group_candidates,
)

if TYPE_CHECKING:
    import pandas as pd

_CELL = ["dataset", "setting", "algorithm", "test_domain", "trial"]


RULES = (*RECORD_RULES, "leave-one-domain-out", *GROUP_RULES, "oracle")
"""Names of the rules; only "oracle", the last, reads labels of the test domain."""


def select(sweep: Sweep, rule: str, *, reach: float = REACH) -> pd.DataFrame:
    """Choose a run and a step for each data set, algorithm, test domain and trial.

    Only finished runs are selected, and of diverged runs only records before they diverged. Ties between the records
    of a run go to the first, ties between sets of hyper-parameters to the one with the higher number, as upstream.
    Averaged weights that runs recorded compete as an algorithm of their own, see :func:`with_averages`.

    Args:
        sweep: Runs and records.
        rule: "training-domain": best record by the mean accuracy on the training domains' "out" splits.
            "extrapolated": best record by the accuracy on the worst of these minus `reach` times its distance from the
            best, see :func:`record_scores`. "leave-one-domain-out": best step by the mean over other domains v of the
            accuracy on v's "in" split, in the run that was trained without v and the test domain. "worst-group": last
            record; the five best sets of the first trial compete by the mean over trials of the worst group's
            validation accuracy. "worst-class": the same by the worst class's, which needs no attributes;
            "train-groups": by the accuracy of the training rows' worst group, which needs those of training rows only.
            "oracle": last record, by the test domain's "out" split.
        reach: How far outside the hull of the training domains the test domain may lie; for "extrapolated" only.

    Returns:
        One row per choice: dataset, algorithm, test_domain, trial, hparams_seed, run, step, validation, test, held_out
        (mean accuracy on the training domains' "out" splits), setting; for :data:`GROUP_RULES` average instead of
        held_out, test is the worst group's accuracy, and test_domain is None.

    Raises:
        ValueError: If there is no such rule, or `reach` is negative or not finite.
    """
    if check_choice("rule", rule, RULES) in GROUP_RULES:
        return select_worst_group(sweep, rule)
    # The last of the equal best ones: sorting is stable, candidates come by number.
    best = (
        candidates(sweep, rule, reach=reach)
        .sort_values("validation", kind="stable")
        .drop_duplicates(_CELL, keep="last")
    )
    position = {(row.dataset, name): i for row in sweep.runs.itertuples() for i, name in enumerate(row.domains)}
    domain = [position[key] for key in zip(best["dataset"], best["test_domain"], strict=True)]
    order = ["_domain" if name == "test_domain" else name for name in _CELL]
    return best.assign(_domain=domain).sort_values(order).drop(columns="_domain").reset_index(drop=True)


def candidates(sweep: Sweep, rule: str, *, reach: float = REACH) -> pd.DataFrame:
    """Candidates of :func:`select`, with its columns: a row for each set of hyper-parameters and trial, by number."""
    import pandas as pd

    check_weight("reach", reach)
    if check_choice("rule", rule, RULES) in GROUP_RULES:
        return worst_group_candidates(sweep, rule)
    rows, numbers = [], ["validation", "test", "held_out"]
    for (row, steps, inside, outside), target, scores in _scored(finished_runs(sweep), rule, reach):
        test = inside[:, target]
        best = best_record(np.where(np.isnan(test), np.nan, scores))  # nothing if no record has both numbers
        if best is not None:
            others = np.delete(outside[best], target)
            choice = (row.dataset, row.algorithm, row.domains[target], row.trial, row.hparams_seed, row.Index)
            accuracies = (scores[best], test[best], others.mean() if others.size else np.nan)
            rows.append((*choice, steps[best], *accuracies, row.setting))
    frame = pd.DataFrame(rows, columns=[*CHOICE_COLUMNS, *numbers, "setting"])
    frame = frame.astype({"trial": int, "hparams_seed": int, "step": int, **dict.fromkeys(numbers, float)})
    return frame.sort_values("hparams_seed", kind="stable", ignore_index=True)


def set_aside(sweep: Sweep, rule: str, *, reach: float = REACH) -> pd.DataFrame:
    """Sets of hyper-parameters that are not candidates because they diverged, with the columns that identify them."""
    import pandas as pd

    columns = ["dataset", "algorithm", "test_domain", "trial", "hparams_seed", "run", "setting"]
    if sweep.diverged().empty:
        return pd.DataFrame(columns=columns)
    sweep = with_averages(sweep)
    # The candidates if nothing had diverged.
    ended = sweep.runs.index.isin(sweep.ended_by_divergence().index)
    runs = sweep.runs.assign(status=sweep.runs["status"].mask(ended, RunState.FINISHED))
    records = sweep.records[sweep.records["metric"] != "loss"]
    tried = candidates(replace(sweep, runs=runs, records=records), rule, reach=reach)
    left = candidates(sweep, rule, reach=reach)["run"]
    return tried.loc[~tried["run"].isin(left), columns].reset_index(drop=True)


def _scored(runs: Sequence[FinishedRun], rule: str, reach: float) -> Iterator[tuple[FinishedRun, int, Array]]:
    """Runs with one test domain: its column, and the validation of each record, NaN for one that is not chosen."""
    cells = [(run.row.dataset, run.row.algorithm, run.row.setting, run.row.trial, run.row.hparams_seed) for run in runs]
    of_tests = {(cell, frozenset(run.row.test_domains)): run for cell, run in zip(cells, runs, strict=True)}
    for cell, run in zip(cells, runs, strict=True):
        domains, tested = run.row.domains, run.row.test_domains
        if len(tested) != 1 or tested[0] not in domains:
            continue
        target = domains.index(tested[0])
        others = [column for column in range(len(domains)) if column != target]
        if rule == "oracle":
            yield run, target, np.where(run.steps == run.steps[-1], run.outside[:, target], np.nan)
        elif others and rule in RECORD_RULES:
            rows = held_out_rows(run.row.rows, [domains[column] for column in others])
            accuracies, total = run.outside[:, others], run.row.steps
            yield run, target, record_scores(rule, accuracies, rows, run.steps, total_steps=total, reach=reach)
        elif others:
            accuracies = np.full((len(run.steps), len(others)), np.nan)
            for k, column in enumerate(others):
                partner = of_tests.get((cell, frozenset((tested[0], domains[column]))))
                if partner is not None:  # else the mean is NaN: it would be over other domains than that of other sets
                    _, mine, theirs = np.intersect1d(run.steps, partner.steps, return_indices=True)
                    accuracies[mine, k] = partner.inside[theirs, partner.row.domains.index(domains[column])]
            yield run, target, accuracies.mean(axis=1)
