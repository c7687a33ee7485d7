"""Tables of docs/results/domainbed.md, by the package's own selection and tables."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from benchmarks.domainbed.plans import STUDIES
from benchmarks.domainbed.study import Study
from benchmarks.markdown import number, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line, expand_runs
from momentalign.algorithms import algorithm_names, find_algorithm
from momentalign.report import PairedDifference, accuracy_table, paired_differences
from momentalign.runs import Sweep
from momentalign.selection import read_runs, select

RULES = ("training-domain", "extrapolated", "oracle")
SHOWN = {name: study for name, study in STUDIES.items() if study.records not in ("ablation", "colored-digits", "pacs")}
"""Studies of this page; several may share a file of records."""
_SWEEPS: dict[frozenset[str], Sweep] = {}  # reading takes seconds, and two pages read the same runs
HARDEST = "-90%"
"""Domain of ColoredMNIST whose sets are shown one by one."""
NO_RUNS = "*There are no runs yet.*"


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """For each study a table under each rule, differences from ERM, and how many of the runs there are."""
    sweeps = {name: read_lines(lines) for name, lines in records.items() if lines}
    blocks: dict[str, str] = {}
    for name, study in SHOWN.items():
        lines = [line for line in records[study.records] if study.covers(line["run"]["config"])]
        blocks[f"{name}-count"] = f"{len(lines)} of {study.size()}"
        blocks[f"{name}-runs"] = runs_table(lines, study)
        sweep = subset(sweeps[study.records], {line["run"]["hash"] for line in lines}) if lines else None
        for rule in RULES:
            blocks[f"{name}-{rule}"] = NO_RUNS if sweep is None else table_text(sweep, rule)
        blocks[f"{name}-differences"] = NO_RUNS if sweep is None else difference_table(sweep)
    coloured = [line for line in records["colored-mnist"] if SHOWN["colored-mnist"].covers(line["run"]["config"])]
    blocks["colored-mnist-sets"] = sets_table(coloured, HARDEST)
    return PageContent(blocks)


def read_lines(lines: Sequence[Line]) -> Sweep:
    """Stored runs as the package reads them, with what selection needs."""
    names = frozenset(line["run"]["hash"] for line in lines)
    if names not in _SWEEPS:
        with TemporaryDirectory() as folder:
            expand_runs(({**line, "curves": _selecting(line)} for line in lines), Path(folder))
            _SWEEPS[names] = read_runs([folder])
    return _SWEEPS[names]


def select_runs(lines: Sequence[Line], study: Study, rule: str) -> pd.DataFrame | None:
    """What a rule selects among a study's stored runs; None without runs."""
    names = {line["run"]["hash"] for line in lines if study.covers(line["run"]["config"])}
    return select(subset(read_lines(lines), names), rule) if names else None


def _selecting(line: Line) -> dict[str, list[float]]:
    """Curves that selection reads: accuracies of held-out rows and of test rows, and the loss."""
    tests = line["run"]["config"]["test_domains"]
    return {
        key: values
        for key, values in line["curves"].items()
        for metric, split, domain in [key.split("|")]
        if metric == "loss" or (metric.endswith("accuracy") and (split == "out" or domain in tests))
    }


def subset(sweep: Sweep, names: set[str]) -> Sweep:
    """Some runs of a sweep."""
    return replace(
        sweep,
        runs=sweep.runs[sweep.runs.index.isin(names)],
        records=sweep.records[sweep.records["run"].isin(names)],
    )


def runs_table(lines: Sequence[Line], study: Study) -> str:
    """How many of the planned runs each method has."""
    found = Counter(line["run"]["config"]["algorithm"] for line in lines)
    rows = [
        [find_algorithm(name).label, str(found[name]), str(study.size(name))]
        for name in algorithm_names()
        if study.size(name)
    ]
    return table(["method", "runs", "planned"], rows)


def sets_table(lines: Sequence[Line], test_domain: str) -> str:
    """Accuracy of the last record with each set: of the test domain, and of the training domains' held-out rows."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for line in lines:
        config = line["run"]["config"]
        if config["test_domains"] == [test_domain]:
            last = {name: values[-1] for name, values in line["curves"].items()}
            trained = [last[f"accuracy|out|{domain}"] for domain in line["run"]["domains"] if domain != test_domain]
            pair = last[f"accuracy|in|{test_domain}"], statistics.fmean(trained)
            found.setdefault((config["algorithm"], config["hparams_seed"]), []).append(pair)
    if not found:
        return NO_RUNS
    sets = sorted({each for _, each in found})
    rows = []
    for name in algorithm_names():
        if any((name, each) in found for each in sets):
            cells = (zip(*found.get((name, each), []), strict=True) for each in sets)
            texts = [" / ".join(number(100 * statistics.fmean(values)) for values in cell) or "–" for cell in cells]
            rows.append([find_algorithm(name).label, *texts])
    return table(["", *("defaults" if each == 0 else f"set {each}" for each in sets)], rows)


def table_text(sweep: Sweep, rule: str) -> str:
    """A table without its answer: the differences have a table of their own."""
    table = accuracy_table(sweep, rule)
    return replace(table, sections=tuple(replace(each, comparison=None) for each in table.sections)).to_markdown()


def difference_table(sweep: Sweep) -> str:
    """Paired differences from ERM in points, of averaged weights from its own, with 95% intervals, under each rule."""
    chosen = {rule: mean_differences(select(sweep, rule)) for rule in RULES}
    rows = []
    for name in dict.fromkeys(name for differences in chosen.values() for name in differences):
        cells = [difference_text(chosen[rule].get(name)) for rule in RULES]
        rows.append([method_label(name), *cells])
    return table(["difference from ERM", *RULES], rows, left=(0,)) if rows else "*Only ERM has runs.*"


def mean_differences(chosen: pd.DataFrame, baseline: str = "erm") -> dict[str, PairedDifference]:
    """Differences from a baseline in the mean over test domains, by algorithm."""
    return {each.algorithm: each for each in paired_differences(chosen, baseline) if each.domain is None}


def difference_text(difference: PairedDifference | None) -> str:
    """A difference in points with half its 95% interval, bold where that excludes 0."""
    if difference is None:
        return ""
    text = number(difference.points, sign=True)
    text += "" if difference.error is None else f" ± {difference.error:.1f}"
    return f"**{text}**" if difference.found else text


def method_label(name: str) -> str:
    """Name of a method in tables, with its average."""
    algorithm, plus, average = name.partition("+")
    return find_algorithm(algorithm).label + (f" + {average.upper()}" if plus else "")


PAGE = StudyPage({study.records: SWEEP_RUNS for study in SHOWN.values()}, make_page)
