"""Plan of a sweep: data sets × algorithms × test domains × sets of hyper-parameters × trials."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from momentalign._format import join_names, pluralize
from momentalign._table_spec import resolve_spec
from momentalign._validation import check_choice, check_count, check_names
from momentalign.algorithms import PLAIN_MODELS, find_algorithm
from momentalign.data import DomainDataset, load_dataset
from momentalign.runs import RunConfig
from momentalign.selection import FINALISTS, GROUP_RULES, RULES, Sweep, finalists, worst_group_candidates
from momentalign.training import make_config, make_plain_config

DEFAULT_RULES = ("training-domain", "extrapolated", "oracle")


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Args:
        runs: Known from the start, in order of execution.
        rules: Selection rules that need them.
        domains: Names of the domains of each data set.
        finals: Further trials by data set, algorithm and set of hyper-parameters, which follow for the best sets of the
            first trial; for the rules of data with groups only.
    """

    runs: tuple[RunConfig, ...]
    rules: tuple[str, ...]
    domains: Mapping[str, tuple[str, ...]]
    finals: Mapping[tuple[str, str, int], tuple[RunConfig, ...]] = field(default_factory=dict)

    @property
    def all_runs(self) -> tuple[RunConfig, ...]:
        """First trials and final runs."""
        return (*self.runs, *itertools.chain(*self.finals.values()))

    @property
    def number_of_finals(self) -> int:
        """Most runs that follow the first trials."""
        return most_finals({key: len(runs) for key, runs in self.finals.items()}, len(self.group_rules))

    @property
    def group_rules(self) -> tuple[str, ...]:
        """Rules that choose the final runs."""
        return tuple(rule for rule in self.rules if rule in GROUP_RULES)

    def final_runs(self, sweep: Sweep) -> tuple[RunConfig, ...]:
        """Further trials of the best sets, given the results of the first trials."""
        if not self.finals:
            return ()
        ours = {run.hash() for run in self.runs}
        keys: dict[tuple[str, str, int], None] = {}
        for rule in self.group_rules:
            candidates = worst_group_candidates(sweep, rule)
            best = finalists(candidates[candidates["run"].isin(ours)])
            keys |= dict.fromkeys(zip(best["dataset"], best["algorithm"], best["hparams_seed"], strict=True))
        return tuple(run for key in keys for run in self.finals.get(key, ()))

    def describe(self) -> str:
        """One line: number of runs, data sets, algorithms, test domains, sets and trials."""
        number = len(self.runs) + self.number_of_finals
        names: dict[str, set[Any]] = {
            "data set": {run.dataset for run in self.runs},
            "algorithm": {run.algorithm for run in self.runs},
            "choice of test domains": {(run.dataset, run.test_domains) for run in self.runs if run.test_domains},
            "set of hyper-parameters": {run.hparams_seed for run in self.runs},
            "trial": {run.trial for run in self.all_runs},
        }
        parts = [pluralize(len(values), noun) for noun, values in names.items() if values]
        return f"{pluralize(number, 'run')}: {', '.join(parts)}; for {join_names(self.rules)} selection."


def make_plan(
    datasets: Sequence[str],
    algorithms: Sequence[str],
    *,
    rules: Sequence[str] | None = None,
    trials: int = 3,
    hparams: int = 5,
    test_domains: Sequence[str] | None = None,
    root: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    baselines: bool = True,
    **options: Any,
) -> Plan:
    """List the runs that selection rules need.

    "training-domain", "extrapolated" and "oracle" need a run for each test domain; "leave-one-domain-out" also one for
    each pair of test domains; "worst-group", "worst-class" and "train-groups" need runs on all domains of a data set
    with groups: all sets of hyper-parameters on the first trial, the five best of them by each rule on the others.

    Args:
        datasets: Names or paths.
        algorithms: Names or import paths.
        rules: Selection rules; None takes "worst-group" for data sets with groups, "training-domain",
            "extrapolated" and "oracle" for others.
        trials: Number of trials.
        hparams: Number of sets of hyper-parameters, the first one the defaults.
        test_domains: Test domains; None takes each domain in turn.
        root: Data folder.
        overrides: Fixed hyper-parameters.
        baselines: Whether plain models (:data:`momentalign.algorithms.PLAIN_MODELS`) run beside the algorithms on data
            sets that are tables. They have no hyper-parameters to draw, so each has one set.
        **options: Of :func:`momentalign.training.make_config`: steps, record_every, encoder, holdout, precision,
            average, preset, augment.

    Raises:
        ValueError: A name is unknown, or a rule does not apply to a data set.
    """
    check_count("trials", trials, 1)
    check_count("hparams", hparams, 1)
    for rule in check_names("rules", rules or ()):
        check_choice("select", rule, RULES)
    _check_names(datasets, algorithms)
    named = [algorithm for algorithm in algorithms if algorithm in PLAIN_MODELS]
    algorithms = [algorithm for algorithm in algorithms if algorithm not in PLAIN_MODELS]
    for algorithm in algorithms:
        find_algorithm(algorithm)
    fitted = {name: value for name, value in options.items() if name in ("steps", "record_every", "holdout")}
    builder = _PlanBuilder()
    for dataset in datasets:
        data = load_dataset(dataset, trial=0, root=root)
        wanted = _rules_for(data, rules)
        tests = _test_domains(data, wanted, test_domains)
        is_table = data.training_recipe == "table"
        if named and not is_table:
            raise ValueError(f"'{named[0]}' takes rows of a table, but {data.name} is none. Omit it.")
        models = list(PLAIN_MODELS) if baselines and is_table else named
        # First: they take a second, and an interrupted sweep has something to compare with.
        for trial, test, model in itertools.product(range(trials), tests, models):
            config = make_plain_config(dataset, model, test_domains=test, trial=trial, root=root, loaded=data, **fitted)
            builder.add(config, data.names, wanted)
        for trial, number, test, algorithm in itertools.product(range(trials), range(hparams), tests, algorithms):
            config = make_config(
                dataset,
                algorithm,
                test_domains=test,
                trial=trial,
                hparams_seed=number,
                hparams=overrides,
                root=root,
                loaded=data,
                **options,
            )
            builder.add(config, data.names, wanted)
    return builder.plan()


def make_probe_plan(
    datasets: Sequence[str],
    algorithms: Sequence[str],
    *,
    rules: Sequence[str] = ("worst-group",),
    trials: int = 5,
    hparams: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    **options: Any,
) -> Plan:
    """List the probes that selection for the worst group needs.

    Args:
        datasets: Feature files, as `momentalign embed` writes them, or other tables of numbers with splits.
        algorithms: Names of probing methods.
        rules: Selection rules for data with groups.
        trials: Number of seeds.
        hparams: Number of sets of hyper-parameters per method; None takes its whole grid.
        overrides: Fixed hyper-parameters.
        **options: Of :func:`momentalign.probing.make_probe_config`: solver, recipe, record_every.
    """
    from momentalign.probing import ProbeData, make_probe_config, method_grid, recipe_for
    from momentalign.tables import MissingColumnError

    for rule in check_names("rules", rules):
        if check_choice("select", rule, RULES) not in GROUP_RULES:
            raise ValueError(f"Probes cannot be selected by {rule}. Use --select {', '.join(GROUP_RULES)}.")
    check_count("trials", trials, 1)
    _check_names(datasets, algorithms)
    solver, recipe = options.get("solver", "converged"), recipe_for(options.get("recipe", "table"))
    builder = _PlanBuilder()
    for dataset in datasets:
        try:
            data = ProbeData.from_file(dataset)
        except MissingColumnError as error:
            raise ValueError(f"Probes need labels, domains and the splits train, val and test. {error}") from None
        for algorithm in algorithms:
            sets = len(method_grid(algorithm, solver, recipe, train_rows=len(data.rows("train"))))
            sets = sets if hparams is None else min(sets, check_count("hparams", hparams, 1))
            for trial, number in itertools.product(range(trials), range(sets)):
                about = {"hparams_seed": number, "trial": trial, "hparams": overrides, "data": data, **options}
                builder.add(make_probe_config(resolve_spec(dataset), algorithm, **about), data.domain_names, rules)
    return builder.plan()


def most_finals(numbers: Mapping[tuple[str, str, int], int], rules: int = 1) -> int:
    """Largest number of final runs, given their numbers by data set, algorithm and set."""
    by_algorithm: dict[tuple[str, str], list[int]] = {}
    for (dataset, algorithm, _), number in numbers.items():
        by_algorithm.setdefault((dataset, algorithm), []).append(number)
    return sum(sum(sorted(own, reverse=True)[: rules * FINALISTS]) for own in by_algorithm.values())


def _check_names(datasets: Sequence[str], algorithms: Sequence[str]) -> None:
    check_names("datasets", datasets)
    check_names("algorithms", algorithms)
    for name, values in (("data set", datasets), ("algorithm", algorithms)):
        if not values:
            raise ValueError(f"A sweep needs at least one {name}.")


class _PlanBuilder:
    """Collects distinct runs; further trials of runs without test domains are final runs."""

    def __init__(self) -> None:
        self.runs: dict[str, RunConfig] = {}
        self.finals: dict[tuple[str, str, int], tuple[RunConfig, ...]] = {}
        self.domains: dict[str, tuple[str, ...]] = {}
        self.rules: dict[str, None] = {}

    def add(self, config: RunConfig, domains: tuple[str, ...], rules: Sequence[str]) -> None:
        self.domains[config.dataset] = domains
        self.rules |= dict.fromkeys(rules)
        if config.test_domains or config.trial == 0:
            self.runs.setdefault(config.hash(), config)
        else:
            key = (config.dataset, config.algorithm, config.hparams_seed)
            self.finals[key] = (*self.finals.get(key, ()), config)

    def plan(self) -> Plan:
        return Plan(tuple(self.runs.values()), tuple(self.rules), self.domains, self.finals)


def _rules_for(data: DomainDataset, rules: Sequence[str] | None) -> tuple[str, ...]:
    grouped = data.group_names is not None and {"val", "test"} <= set(data.split_names)
    if rules is None:
        return ("worst-group",) if grouped else DEFAULT_RULES
    for rule in rules:
        if (rule in GROUP_RULES) != grouped:
            has = "groups and published splits" if grouped else "no groups"
            fits = ", ".join(name for name in RULES if (name in GROUP_RULES) == grouped)
            raise ValueError(f"{data.name} has {has}, so it cannot be selected by {rule}. Use --select {fits}.")
        if rule == "leave-one-domain-out" and len(data.names) < 3:
            raise ValueError(
                f"leave-one-domain-out needs at least three domains, but {data.name} has {len(data.names)}."
            )
    return tuple(rules)


def _test_domains(data: DomainDataset, rules: Sequence[str], chosen: Sequence[str] | None) -> list[tuple[str, ...]]:
    if any(rule in GROUP_RULES for rule in rules):
        if chosen:
            raise ValueError(f"{data.name} is evaluated by its worst group on all domains. Omit --test-domains.")
        return [()]
    if len(data.names) < 2:
        raise ValueError(
            f"A sweep trains without one domain at a time, but {data.name} has only '{data.names[0]}'. Two domains at "
            "least are needed; of a table, name their column with --domain."
        )
    names = [check_choice("test_domains", name, data.names) for name in chosen or data.names]
    tests: list[tuple[str, ...]] = [(name,) for name in dict.fromkeys(names)]
    if "leave-one-domain-out" in rules:
        pairs = itertools.combinations(data.names, 2)
        tests += [pair for pair in pairs if set(pair) & set(names)]
    return tests
