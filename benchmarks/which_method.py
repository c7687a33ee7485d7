"""Numbers of docs/which-method.md."""

from collections.abc import Mapping

from benchmarks.domainbed.page import difference_text, mean_differences, select_runs
from benchmarks.groups.facts import sentence_numbers
from benchmarks.groups.study import GroupStudy
from benchmarks.markdown import table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.probing.page import PAGE as PROBING
from benchmarks.probing.page import choose
from benchmarks.readme import PAGE as README
from benchmarks.readme import RULES, STUDY, table_gains
from benchmarks.records import Line
from momentalign.algorithms import algorithm_names, find_algorithm

GROUP_FACTS = ("subsampled-gain", "subsampled-cost", "labels-loss", "alignment-mean")


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Differences from ERM on ColoredMNIST, and what the other studies say in a number or two."""
    groups = sentence_numbers(GroupStudy(records["groups"]))
    probed = mean_differences(choose(records["probing"], "training-domain"))
    blocks = {
        "coloured": coloured_table(records["colored-mnist"]),
        "probing-balanced": difference_text(probed["erm-balanced"]).strip("*"),
        **table_gains(records["estimators"]),
        **{name: groups[name] for name in GROUP_FACTS},
    }
    return PageContent(blocks)


def coloured_table(lines: list[Line]) -> str:
    """Differences from ERM in points with 95% intervals, mean over test domains, of methods run in full."""
    found = {}
    for rule in RULES:
        chosen = select_runs(lines, STUDY, rule)
        assert chosen is not None
        found[rule] = mean_differences(chosen)
    rows = [
        [find_algorithm(name).label, *(difference_text(found[rule][name]) for rule in RULES)]
        for name in algorithm_names()
        if name != "erm" and STUDY.size(name)
    ]
    return table(["difference from ERM", *RULES], rows)


PAGE = StudyPage({**README.files, **PROBING.files}, make_page, texts=("which-method.md",))
