"""Group a sweep for the page: by data set and setting, with the runs that are shown for each method."""

from dataclasses import dataclass

import pandas as pd

from momentalign.report._names import algorithm_label, algorithm_order, dataset_labels, dataset_order
from momentalign.report._style import NameStyles
from momentalign.selection import GROUP_RULES, REACH, RULES, Sweep, select, set_aside, with_averages


@dataclass(frozen=True, eq=False)
class Case:
    """One data set in one setting.

    Args:
        dataset: Name or path.
        setting: "finetune" or "probe".
        title: Name on the page.
        domains: In the data set's order.
        runs: Its runs, with a column `method`.
        chosen: Runs whose curves are shown: run, method, test_domain, trial.
        rule: The first of :data:`RULES` that applies, which selected them; None if all runs are shown.
    """

    dataset: str
    setting: str
    title: str
    domains: tuple[str, ...]
    runs: pd.DataFrame
    chosen: pd.DataFrame
    rule: str | None


@dataclass(frozen=True, eq=False)
class GroupedSweep:
    """A sweep by cases.

    Args:
        sweep: As read, averaged weights as runs of their own.
        cases: By data set and setting.
        methods: Labels of the algorithms, in the order of the catalogue.
        choices: Result of each rule that applies, with a column `method`.
        unavailable: Why each other rule does not apply; group rules only if there are groups.
        reach: Of the rule "extrapolated".
    """

    sweep: Sweep
    cases: list[Case]
    methods: tuple[str, ...]
    choices: dict[str, pd.DataFrame]
    unavailable: dict[str, str]
    reach: float

    @property
    def styles(self) -> NameStyles:
        """Styles of the methods, the same in all charts."""
        return NameStyles.of(self.methods)


def group_cases(sweep: Sweep, *, reach: float = REACH) -> GroupedSweep:
    """Group a sweep, finished or not, by data set and setting."""
    sweep = with_averages(sweep)
    labels = {name: algorithm_label(name) for name in sorted(sweep.runs["algorithm"].unique(), key=algorithm_order)}
    runs = sweep.runs.assign(method=[labels[name] for name in sweep.runs["algorithm"]])
    has_groups = bool((sweep.records["metric"] == "worst_group_accuracy").any())
    choices, unavailable = {}, {}
    for rule in RULES:
        if rule in GROUP_RULES and not has_groups:
            continue
        chosen = select(sweep, rule, reach=reach)
        if chosen.empty:
            unavailable[rule] = _unavailable_reason(sweep, rule)
        else:
            choices[rule] = chosen.assign(method=[labels[name] for name in chosen["algorithm"]])
    groups = runs.groupby(["dataset", "setting"], sort=False)
    both_settings = len(groups) > runs["dataset"].nunique()
    datasets = dataset_labels([*sweep.runs["dataset"], *sweep.planned["dataset"]])
    cases = []
    for (dataset, setting), own in sorted(groups, key=lambda group: (dataset_order(group[0][0]), group[0][1])):
        title = f"{datasets[dataset]} ({setting})" if both_settings else datasets[dataset]
        domains = tuple(dict.fromkeys(name for names in own["domains"] for name in names))
        chosen, chosen_by = _chosen(own, choices)
        cases.append(Case(str(dataset), str(setting), title, domains, own, chosen, chosen_by))
    return GroupedSweep(sweep, cases, tuple(labels.values()), choices, unavailable, reach)


def _chosen(runs: pd.DataFrame, choices: dict[str, pd.DataFrame]) -> tuple[pd.DataFrame, str | None]:
    columns = ["run", "method", "test_domain", "trial"]
    for rule, chosen in choices.items():
        own = chosen[chosen["run"].isin(runs.index)]
        if len(own):
            return own[columns].reset_index(drop=True), rule
    single = runs[[len(domains) < 2 for domains in runs["test_domains"]]]
    domains = [domains[0] if domains else None for domains in single["test_domains"]]
    return single.assign(run=single.index, test_domain=domains)[columns].reset_index(drop=True), None


def _unavailable_reason(sweep: Sweep, rule: str) -> str:
    finished = sweep.finished()
    if finished.empty:
        return "no run is finished."
    if len(set_aside(sweep, rule)):
        return "all runs that it could select diverged."
    if rule in GROUP_RULES:
        metric, split = GROUP_RULES[rule]
        name = metric.removesuffix("_accuracy").replace("_", "-")
        return f"no finished run recorded {name} accuracies on '{split}' and worst-group accuracies on 'test'."
    single = [len(domains) == 1 for domains in finished["test_domains"]]
    if not any(single):
        return "no finished run has a single test domain."
    if rule == "leave-one-domain-out":
        pairs = [len(domains) == 2 for domains in finished["test_domains"]]
        missing = "there are none" if not any(pairs) else "no test domain has all of them"
        return f"it needs finished runs with two test domains, and {missing}."
    if rule == "extrapolated":
        return "the finished runs have no accuracies on the splits that it reads, from 2% of their steps on."
    return "the finished runs have no accuracies on the splits that it reads."
