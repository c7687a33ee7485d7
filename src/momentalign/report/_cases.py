"""A sweep put in order for the page: what belongs in one chart, in what order, and which runs stand for a method."""

from dataclasses import dataclass

import pandas as pd

from momentalign.report._names import algorithm_label, algorithm_order, dataset_labels, dataset_order
from momentalign.selection import RULES, Sweep, select, set_aside

PREFERRED = ("oracle", "training-domain", "leave-one-domain-out", "worst-group")
"""Whose choice the curves show where several rules can be answered: the first of these."""


@dataclass(frozen=True, eq=False)
class Case:
    """One data set in one setting: what may be compared.

    Args:
        dataset: Its name or path.
        setting: "finetune" or "probe".
        title: What the page calls it.
        domains: In the data set's order.
        runs: Its runs, with a column `method`.
        chosen: Of those, the runs that stand for their method in curves: run, method, test_domain, trial.
        rule: Which rule chose them; None where none could, and all runs stand for their method.
    """

    dataset: str
    setting: str
    title: str
    domains: tuple[str, ...]
    runs: pd.DataFrame
    chosen: pd.DataFrame
    rule: str | None


@dataclass(frozen=True, eq=False)
class Ordered:
    """The sweep by cases.

    Args:
        sweep: As it was read.
        cases: By data set and setting.
        methods: Names of the algorithms as tables print them, from the plainest on.
        choices: Result of each rule that the sweep can answer, with a column `method`.
        unanswered: Why not, for the other rules.
    """

    sweep: Sweep
    cases: list[Case]
    methods: tuple[str, ...]
    choices: dict[str, pd.DataFrame]
    unanswered: dict[str, str]


def order(sweep: Sweep) -> Ordered:
    """Put a sweep in order.

    Args:
        sweep: Runs and records, finished or not.

    Returns:
        Cases, methods and the rules' choices.
    """
    names = {name: algorithm_label(name) for name in sorted(sweep.runs["algorithm"].unique(), key=algorithm_order)}
    runs = sweep.runs.assign(method=[names[name] for name in sweep.runs["algorithm"]])
    choices, unanswered = {}, {}
    for rule in RULES:
        chosen = select(sweep, rule)
        if chosen.empty:
            unanswered[rule] = _why_not(sweep, rule)
        else:
            choices[rule] = chosen.assign(method=[names[name] for name in chosen["algorithm"]])
    ordered = Ordered(sweep, [], tuple(names.values()), choices, unanswered)
    groups = runs.groupby(["dataset", "setting"], sort=False)
    both = len(groups) > runs["dataset"].nunique()
    labels = dataset_labels([*sweep.runs["dataset"], *sweep.planned["dataset"]])
    for (dataset, setting), own in sorted(groups, key=lambda group: (dataset_order(group[0][0]), group[0][1])):
        title = f"{labels[dataset]} ({setting})" if both else labels[dataset]
        domains = tuple(dict.fromkeys(name for names in own["domains"] for name in names))
        standing, chosen_by = _chosen(own, choices)
        ordered.cases.append(Case(str(dataset), str(setting), title, domains, own, standing, chosen_by))
    return ordered


def _chosen(runs: pd.DataFrame, choices: dict[str, pd.DataFrame]) -> tuple[pd.DataFrame, str | None]:
    columns = ["run", "method", "test_domain", "trial"]
    for rule in PREFERRED:
        if rule in choices:
            own = choices[rule][choices[rule]["run"].isin(runs.index)]
            if len(own):
                return own[columns].reset_index(drop=True), rule
    single = runs[[len(domains) < 2 for domains in runs["test_domains"]]]
    domains = [domains[0] if domains else None for domains in single["test_domains"]]
    return single.assign(run=single.index, test_domain=domains)[columns].reset_index(drop=True), None


def _why_not(sweep: Sweep, rule: str) -> str:
    finished = sweep.finished()
    if finished.empty:
        return "no run is finished."
    if len(set_aside(sweep, rule)):
        return "the loss of all runs that it could choose stopped being a number."
    if rule == "worst-group":
        return "no finished run recorded worst-group accuracies on 'val' and 'test'."
    single = [len(domains) == 1 for domains in finished["test_domains"]]
    if not any(single):
        return "no finished run has a single test domain."
    if rule == "leave-one-domain-out":
        pairs = [len(domains) == 2 for domains in finished["test_domains"]]
        missing = "there are none" if not any(pairs) else "for no test domain are there all of them"
        return f"it needs finished runs that leave two domains out, and {missing}."
    return "the finished runs have no accuracies of domains on the splits that it reads."
