"""The selection rules: which run and which step counts.

Each rule turns the runs of one set of hyper-parameters into one candidate (validation, test); the best validation
wins, within data set, algorithm, test domain and trial. The test number is always of the test domain's "in" split.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from momentalign.runs import RunState, Sweep
from momentalign.selection._scores import Run, finished_runs
from momentalign.selection._worst_group import select_worst_group, worst_group_candidates

RULES = ("training-domain", "leave-one-domain-out", "oracle", "worst-group")

_COLUMNS = (
    "dataset",
    "algorithm",
    "test_domain",
    "trial",
    "hparams_seed",
    "run",
    "step",
    "validation",
    "test",
    "setting",
)


def select(sweep: Sweep, rule: str) -> pd.DataFrame:
    """Choose a run and a step for each data set, algorithm, test domain and trial.

    Only finished runs have a say, and those that diverged only with what they recorded before. Ties between the records
    of a run go to the first, ties between sets of hyper-parameters to the one listed later, which is the one with the
    higher number, as upstream.

    Args:
        sweep: Runs and records.
        rule: "training-domain": best record by the mean accuracy on the training domains' "out" splits.
            "leave-one-domain-out": best step by the mean over other domains v of the accuracy on v's "in" split, in the
            run that was trained without v and the test domain. "oracle": last record, by the test domain's "out"
            split. "worst-group": last record; the five best sets of the first trial compete by the mean over trials of
            the worst group's validation accuracy.

    Returns:
        One row a choice: dataset, algorithm, test_domain, trial, hparams_seed, run, step, validation, test, setting;
        for "worst-group" also average, and test_domain is None.

    Raises:
        ValueError: If there is no such rule.
    """
    if _rule(rule) == "worst-group":
        return select_worst_group(sweep)
    listed = candidates(sweep, rule)
    cell = ["dataset", "setting", "algorithm", "test_domain", "trial"]
    # The last of the equal best ones: sorting is stable, candidates come as listed.
    best = listed.sort_values("validation", kind="stable").drop_duplicates(cell, keep="last")
    return _ordered(best, sweep)


def candidates(sweep: Sweep, rule: str) -> pd.DataFrame:
    """What the choice is made from: a row for each set of hyper-parameters and trial.

    Args:
        sweep: Runs and records.
        rule: As for :func:`select`.

    Returns:
        The columns of :func:`select`, in the order of the sets' numbers.
    """
    if _rule(rule) == "worst-group":
        return worst_group_candidates(sweep)
    # Sets are listed by number, which is what upstream's grouping does.
    found = sorted(_STEP_RULES[rule](finished_runs(sweep)), key=lambda item: item[0].hparams_seed)
    rows = [
        (run.cell[0], run.cell[1], domain, run.cell[3], run.hparams_seed, run.name, int(step), val, test, run.cell[2])
        for run, domain, step, val, test in found
    ]
    frame = pd.DataFrame(rows, columns=list(_COLUMNS))
    return frame.astype({"trial": int, "hparams_seed": int, "step": int, "validation": float, "test": float})


def set_aside(sweep: Sweep, rule: str) -> pd.DataFrame:
    """Sets of hyper-parameters that were tried and are no candidates, since a loss stopped being a number.

    Args:
        sweep: Runs and records.
        rule: As for :func:`select`.

    Returns:
        dataset, algorithm, test_domain, trial, hparams_seed, run and setting of each.
    """
    columns = ["dataset", "algorithm", "test_domain", "trial", "hparams_seed", "run", "setting"]
    if sweep.diverged().empty:
        return pd.DataFrame(columns=columns)
    # What would be candidates had nothing diverged.
    ended = sweep.runs.index.isin(sweep.ended_by_divergence().index)
    runs = sweep.runs.assign(status=sweep.runs["status"].mask(ended, RunState.FINISHED))
    tried = candidates(replace(sweep, runs=runs, records=sweep.records[sweep.records["metric"] != "loss"]), rule)
    return tried.loc[~tried["run"].isin(candidates(sweep, rule)["run"]), columns].reset_index(drop=True)


_Candidate = tuple[Run, str, int, float, float]  # run, test domain, step, validation, test


def _training_domain(runs: Iterable[Run]) -> Iterator[_Candidate]:
    for run, target in _single(runs):
        training = [i for i in range(len(run.domains)) if i != target]
        if not training:
            continue
        validation = np.ascontiguousarray(run.outside[:, training]).mean(axis=1)
        yield from _best(run, target, validation)


def _oracle(runs: Iterable[Run]) -> Iterator[_Candidate]:
    for run, target in _single(runs):
        validation = np.full(len(run.steps), np.nan)
        validation[-1] = run.outside[-1, target]
        yield from _best(run, target, validation)


def _leave_one_domain_out(runs: Iterable[Run]) -> Iterator[_Candidate]:
    pairs: dict[tuple[object, ...], dict[frozenset[str], Run]] = defaultdict(dict)
    for run in runs:
        if len(run.test_domains) == 2:
            pairs[*run.cell, run.hparams_seed][frozenset(run.test_domains)] = run
    for run, target in _single(runs):
        others = [domain for i, domain in enumerate(run.domains) if i != target]
        partners = [pairs[*run.cell, run.hparams_seed].get(frozenset((run.domains[target], v))) for v in others]
        if not others or any(partner is None for partner in partners):
            continue  # without one of its runs the average is over other domains than its rivals'
        accuracies = np.full((len(run.steps), len(others)), np.nan)
        for column, (v, partner) in enumerate(zip(others, partners, strict=True)):
            assert partner is not None
            _, mine, theirs = np.intersect1d(run.steps, partner.steps, return_indices=True)
            accuracies[mine, column] = partner.inside[theirs, partner.index(v)]
        yield from _best(run, target, accuracies.mean(axis=1))


_STEP_RULES: dict[str, Callable[[list[Run]], Iterator[_Candidate]]] = {
    "training-domain": _training_domain,
    "leave-one-domain-out": _leave_one_domain_out,
    "oracle": _oracle,
}


def _single(runs: Iterable[Run]) -> Iterator[tuple[Run, int]]:
    """Runs with one test domain, and its column."""
    for run in runs:
        if len(run.test_domains) == 1 and run.test_domains[0] in run.domains:
            yield run, run.index(run.test_domains[0])


def _best(run: Run, target: int, validation: np.ndarray) -> Iterator[_Candidate]:
    """The best record of a run, the first on ties; nothing if no record has both numbers."""
    test = run.inside[:, target]
    usable = np.where(np.isnan(test), np.nan, validation)
    if not np.isnan(usable).all():
        best = int(np.nanargmax(usable))
        yield run, run.domains[target], run.steps[best], float(validation[best]), float(test[best])


def _ordered(chosen: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
    """Rows by name, domains in the order of their data set."""
    place = {(row.dataset, name): i for row in sweep.runs.itertuples() for i, name in enumerate(row.domains)}
    domain = [place[key] for key in zip(chosen["dataset"], chosen["test_domain"], strict=True)]
    order = ["dataset", "setting", "algorithm", "_domain", "trial"]
    return chosen.assign(_domain=domain).sort_values(order).drop(columns="_domain").reset_index(drop=True)


def _rule(rule: str) -> str:
    if rule in RULES:
        return rule
    from momentalign._validation import check_choice  # takes torch, which selection does without

    return check_choice("rule", rule, RULES)
