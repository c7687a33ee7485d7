"""Tables of docs/results/colored-digits.md, and the demo's table of README.md, which has a part of the same runs."""

from collections.abc import Mapping, Sequence

import pandas as pd

from benchmarks.domainbed.page import difference_text, read_lines, subset
from benchmarks.domainbed.plans import STUDIES
from benchmarks.domainbed.study import COLOURED
from benchmarks.markdown import mean_with_error, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line
from momentalign.algorithms import algorithm_names, find_algorithm
from momentalign.report import paired_differences
from momentalign.selection import select

RULES = ("extrapolated", "training-domain", "oracle")
NEW = "-90%"
_DEFAULTS = "defaults"


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """A table for each rule of the confirming trials, and one of the settings on the settling trials."""
    lines = records["colored-digits"]
    confirming, settling = (_of_study(lines, name) for name in ("colored-digits", "colored-digits-settling"))
    blocks = {f"confirmed-{rule}": method_table(confirming, rule) for rule in RULES}
    blocks["settled"] = setting_table(settling)
    blocks["runs"] = f"{len(confirming)} and {len(settling)}"
    return PageContent(blocks)


def method_table(lines: Sequence[Line], rule: str) -> str:
    """Accuracies of averaged weights on every domain, and of the chosen step's own weights on the reversed one."""
    chosen = _select(lines, rule)
    differences = {(each.algorithm, each.domain): each for each in paired_differences(chosen)}
    rows = []
    for name in algorithm_names():
        raw, averaged = (chosen[chosen["algorithm"] == full] for full in (name, f"{name}+sma"))
        if raw.empty:
            continue
        by_domain = {domain: 100 * averaged.loc[averaged["test_domain"] == domain, "test"] for domain in COLOURED}
        held_out = 100 * averaged.loc[averaged["test_domain"] == NEW, "held_out"]
        rows.append(
            [
                find_algorithm(name).label,
                mean_with_error(100 * raw.loc[raw["test_domain"] == NEW, "test"]),
                mean_with_error(by_domain[NEW]),
                difference_text(differences.get((f"{name}+sma", NEW))),
                mean_with_error(held_out),
                *(mean_with_error(by_domain[domain]) for domain in COLOURED if domain != NEW),
            ]
        )
    head = [
        "",
        "−90%, one step",
        "−90%, averaged",
        "minus ERM",
        "its training domains",
        "+90%, averaged",
        "+80%, averaged",
    ]
    return table(head, rows)


def setting_table(lines: Sequence[Line]) -> str:
    """Accuracies on the reversed domain, by method and by what was set."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        config = line["run"]["config"]
        defaults = find_algorithm(config["algorithm"]).space("digits", config["steps"])
        changed = {k: v for k, v in config["hparams"].items() if k in defaults and v != defaults[k].default}
        text = ", ".join(f"{name} {value:g}" for name, value in changed.items()) or _DEFAULTS
        groups.setdefault((config["algorithm"], text), []).append(line)
    rows = []
    for name, text in sorted(
        groups, key=lambda pair: (algorithm_names().index(pair[0]), pair[1] != _DEFAULTS, pair[1])
    ):
        chosen = _select(groups[name, text], "extrapolated").groupby("algorithm")["test"]
        cells = [mean_with_error(100 * chosen.get_group(full)) for full in (name, f"{name}+sma")]
        rows.append([find_algorithm(name).label, text, *cells])
    return table(["", "weights", "−90%, one step", "−90%, averaged"], rows, left=(0, 1))


def _select(lines: Sequence[Line], rule: str) -> pd.DataFrame:
    names = {line["run"]["hash"] for line in lines}
    return select(subset(read_lines(lines), names), rule)


def _of_study(lines: Sequence[Line], name: str) -> list[Line]:
    return [line for line in lines if STUDIES[name].covers(line["run"]["config"])]


PAGE = StudyPage({"colored-digits": SWEEP_RUNS}, make_page)
