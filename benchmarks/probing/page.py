"""Tables of docs/results/probing.md."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.domainbed.page import mean_differences
from benchmarks.markdown import mean_with_error, number, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.probing.cells import METHODS
from benchmarks.records import Line, RecordFile, json_lines
from momentalign.probing import find_method
from momentalign.report import PairedDifference
from momentalign.selection import RECORD_RULES, record_scores


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Accuracies under each rule, differences from ERM, and what was fitted."""
    lines = records["probing"]
    chosen = {rule: choose(lines, rule) for rule in RECORD_RULES}
    differences = {rule: mean_differences(frame) for rule, frame in chosen.items()}
    blocks = {rule: accuracies(frame) for rule, frame in chosen.items()}
    blocks["differences"] = difference_table(differences)
    blocks["fits"] = fit_table(lines)
    blocks["seconds"] = number(sum(line["seconds"] for line in lines) / 60)
    blocks["splits"] = str(len({line["seed"] for line in lines}))
    blocks["comparisons"] = str(sum(map(len, differences.values())))
    beyond = {rule: mean_differences(frame, "erm-balanced") for rule, frame in chosen.items()}
    blocks["beyond"] = "; ".join(f"{rule}: {_named(beyond[rule], 1)}" for rule in RECORD_RULES)
    blocks["rule-cost"] = rule_cost(chosen["training-domain"], chosen["extrapolated"])
    for side, sign in (("above", 1), ("below", -1)):
        blocks[side] = "; ".join(f"{rule}: {_named(differences[rule], sign)}" for rule in RECORD_RULES)
    return PageContent(blocks)


def choose(lines: Sequence[Line], rule: str) -> pd.DataFrame:
    """The set that a rule chooses in each cell, the later one on ties, with the columns of `select` that are used."""
    rows = []
    for line in lines:
        validation = np.array([result["validation"] for result in line["results"]])
        once = np.ones(len(validation), dtype=np.int64)  # a fitted head has one record
        scores = record_scores(rule, validation, np.array(line["rows"]["validation"]), once, total_steps=1)
        best = int(np.flatnonzero(scores == scores.max())[-1])
        rows.append((line["method"], line["domain"], line["seed"], line["results"][best]["test"]))
    return pd.DataFrame(rows, columns=["algorithm", "test_domain", "trial", "test"])


def rule_cost(usual: pd.DataFrame, outside: pd.DataFrame) -> str:
    """Most points of the mean that a method's second choice loses to its first."""
    means = [frame.groupby("algorithm")["test"].mean() for frame in (usual, outside)]
    return number(100 * float((means[0] - means[1]).max()))


def accuracies(chosen: pd.DataFrame) -> str:
    """Test accuracy in %, mean ± standard error over splits, of each left-out domain and of their mean."""
    tests = 100 * chosen.pivot(index=["algorithm", "trial"], columns="test_domain", values="test")
    rows = []
    for name in _present(chosen["algorithm"]):
        of_method = tests.loc[name]
        rows.append(
            [
                _label(name),
                *(mean_with_error(of_method[domain]) for domain in tests),
                mean_with_error(of_method.mean(axis=1)),
            ]
        )
    return table(["method", *map(str, tests), "mean"], rows)


def difference_table(differences: Mapping[str, Mapping[str, PairedDifference]]) -> str:
    """Differences from ERM in points with half their 95% intervals, bold where these exclude 0."""
    samples = {name: f"{each.trials} trials" for of_rule in differences.values() for name, each in of_rule.items()}
    rows = [
        [_label(name), *(_shown(of_rule[name]) for of_rule in differences.values()), samples[name]]
        for name in _present(samples)
    ]
    return table(["difference from ERM", *differences, "interval over"], rows)


def fit_table(lines: Sequence[Line]) -> str:
    """Sets and splits that were fitted, CPU seconds of all fits, and how many did not converge."""
    rows = []
    for name in _present(line["method"] for line in lines):
        of_method = [line for line in lines if line["method"] == name]
        results = [result for line in of_method for result in line["results"]]
        sets = "; ".join(
            ", ".join(f"{key.removesuffix('_weight')} {value:g}" for key, value in result["hparams"].items())
            for result in of_method[0]["results"]
        )
        stopped = sum(not result["converged"] for result in results)
        splits = len({line["seed"] for line in of_method})
        seconds = sum(line["seconds"] for line in of_method)
        rows.append([_label(name), sets, str(splits), str(len(results)), str(stopped), number(seconds)])
    return table(["method", "sets", "splits", "fits", "not converged", "CPU s"], rows, left=(0, 1))


def _present(names: Iterable[str]) -> list[str]:
    found = set(names)
    return [name for name in METHODS if name in found]


def _label(name: str) -> str:
    return f"{find_method(name).label} (`{name}`)"


def _shown(difference: PairedDifference) -> str:
    text = number(difference.points, sign=True)
    text += "" if difference.error is None else f" ± {number(difference.error)}"
    return f"**{text}**" if difference.found else text


def _named(differences: Mapping[str, PairedDifference], sign: int) -> str:
    found = {name for name, each in differences.items() if each.found and each.points * sign > 0}
    return ", ".join(f"`{name}`" for name in _present(found)) or "none"


PAGE = StudyPage({"probing": RecordFile(("domain", "seed", "method"), json_lines)}, make_page)
