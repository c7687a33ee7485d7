"""Tables of docs/results/domainbed.md, by the package's own selection and tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.markdown import table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line, expand_runs
from momentalign.algorithms import algorithm_names, find_algorithm
from momentalign.report import PairedDifference, accuracy_table, paired_differences
from momentalign.runs import Sweep
from momentalign.selection import read_runs, select

RULES = ("training-domain", "extrapolated", "oracle")


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """For each data set a table under each rule, differences from ERM, and how many runs there are."""
    blocks: dict[str, str] = {}
    for name, lines in records.items():
        with TemporaryDirectory() as folder:
            expand_runs(lines, Path(folder))
            sweep = read_runs([folder])
        blocks[f"{name}-runs"] = runs_table(lines)
        for rule in RULES:
            blocks[f"{name}-{rule}"] = accuracy_table(sweep, rule).to_markdown()
        blocks[f"{name}-differences"] = difference_table(sweep)
    return PageContent(blocks)


def runs_table(lines: Sequence[Line]) -> str:
    """How many of a study's runs each method has: of all test domains, sets and trials."""
    configs = [line["run"]["config"] for line in lines]
    found = Counter(config["algorithm"] for config in configs)
    trials = {name: sorted({c["trial"] for c in configs if c["algorithm"] == name}) for name in found}
    rows = [
        [find_algorithm(name).label, str(found[name]), ", ".join(map(str, trials[name]))]
        for name in algorithm_names()
        if name in found
    ]
    return table(["method", "runs", "trials"], rows, left=(0, 2))


def difference_table(sweep: Sweep) -> str:
    """Paired differences from ERM in points, with 95% intervals, under each rule."""
    chosen = {rule: {d.algorithm: d for d in paired_differences(select(sweep, rule))} for rule in RULES}
    rows = []
    for name in dict.fromkeys(name for differences in chosen.values() for name in differences):
        cells = [_shown(chosen[rule].get(name)) for rule in RULES]
        rows.append([_label(name), *cells])
    return table(["difference from ERM", *RULES], rows, left=(0,))


def _shown(difference: PairedDifference | None) -> str:
    if difference is None or difference.points is None:
        return ""
    text = f"{difference.points:+.1f}".replace("-", "−")
    text += "" if difference.error is None else f" ± {difference.error:.1f}"
    return f"**{text}**" if difference.found else text


def _label(name: str) -> str:
    algorithm, plus, average = name.partition("+")
    return find_algorithm(algorithm).label + (f" + {average.upper()}" if plus else "")


PAGE = StudyPage({"colored-mnist": SWEEP_RUNS}, make_page)
