"""Tables of docs/results/index.md: our numbers beside the paper's, and what the files of records hold."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping

from benchmarks.costs.page import PAPERS, compare_costs
from benchmarks.domainbed.page import select_runs
from benchmarks.domainbed.plans import STUDIES
from benchmarks.markdown import number, table
from benchmarks.pages import MODULES, PageContent, StudyPage, study_page
from benchmarks.records import Line
from momentalign.algorithms import find_algorithm
from momentalign.published import AVERAGE, PublishedNumber, published_accuracy, published_as

OWN_NAME = "index"
SHOWN = ("momentalign", "python", "torch", "numpy", "scikit-learn")
"""Packages whose versions are shown."""
COMPARED = {"colored-mnist": "ColoredMNIST", "rotated-mnist": "RotatedMNIST"}
"""Studies with the paper's encoder, whose numbers can be compared."""
METHODS = ("erm", "coral", "fishr", "hgp", "cma", "cma-diagonal")
RULES = ("training-domain", "oracle")
"""The paper's."""


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """What the paper has beside what the records have, and one row for each file."""
    rows = [
        [f"`{name}`", str(len(lines)), _join(map(_versions, lines)), _join(map(_device, lines))]
        for name, lines in records.items()
    ]
    files = table(["records", "lines", "versions", "device"], rows, left=(0, 2, 3))
    return PageContent({"accuracies": accuracy_rows(records), "costs": cost_rows(records["costs"]), "files": files})


def accuracy_rows(records: Mapping[str, list[Line]]) -> str:
    """Accuracies under the paper's rules: its own, ours, and how many trials and runs ours have."""
    rows = []
    for name, title in COMPARED.items():
        study, lines = STUDIES[name], records[name]
        runs = Counter(line["run"]["config"]["algorithm"] for line in lines if study.covers(line["run"]["config"]))
        for rule in RULES:
            chosen = select_runs(lines, study, rule)
            if chosen is None:
                continue
            for method in METHODS:
                of_method = chosen[chosen["algorithm"] == method]
                tests = 100 * of_method.pivot(index="trial", columns="test_domain", values="test")
                tests = tests.reindex(columns=list(study.domains)).dropna()
                if tests.empty:
                    continue
                published = published_accuracy(rule, name)[published_as(method)]
                columns = {AVERAGE: tests.mean(axis=1)}
                columns |= {"-90%": tests["-90%"]} if "-90%" in tests else {}
                cells = [
                    text
                    for column, values in columns.items()
                    for text in (_published(published.get(column)), _with_error(values.tolist()))
                ]
                cells += [""] * (4 - len(cells))
                label = f"{title}, {rule}, {find_algorithm(method).label}"
                rows.append([label, *cells, str(len(tests)), f"{runs[method]} of {study.size(method)}"])
    head = ["accuracy in %", "paper, average", "here", "paper, −90%", "here", "trials", "runs"]
    return table(head, rows)


def cost_rows(lines: list[Line]) -> str:
    """Time and memory of CMA in units of ERM: the paper's two versions, and the package's."""
    compared = compare_costs(lines)
    if not compared:
        return "*Nothing was measured yet.*"
    head = ["CMA in units of ERM", *(f"paper, {name.removeprefix('cma-')}" for name in PAPERS), "here"]
    return table(head, compared)


def _published(found: PublishedNumber | None) -> str:
    if found is None:
        return ""
    return number(found.mean) + ("" if found.error is None else f" ± {number(found.error)}")


def _with_error(values: list[float]) -> str:
    """Mean ± population standard deviation / √trials, as the tables of accuracies have it."""
    text = number(statistics.fmean(values))
    return text if len(values) < 2 else f"{text} ± {number(statistics.pstdev(values) / len(values) ** 0.5)}"


def _join(values: Iterable[str]) -> str:
    """Distinct values, the most frequent first, with their numbers of records if there are several."""
    counts = Counter(values).most_common()
    return "; ".join(f"{value} ({count})" if len(counts) > 1 else value for value, count in counts)


def _versions(line: Line) -> str:
    run = line.get("run", {})
    versions = {**line.get("versions", {}), **run.get("versions", {})}
    if "momentalign" in run:
        versions["momentalign"] = run["momentalign"]
    return ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions) or "not recorded"


def _device(line: Line) -> str:
    return line.get("run", line).get("device") or "not recorded"


PAGE = StudyPage(
    {name: file for page in MODULES if page != OWN_NAME for name, file in study_page(page).files.items()}, make_page
)
