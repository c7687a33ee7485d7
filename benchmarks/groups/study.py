"""Records of the study, and the rules by which validation rows choose a setting."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.groups.methods import NEEDS
from benchmarks.groups.sets import SETS
from benchmarks.markdown import standard_error
from benchmarks.records import Line

Floats = NDArray[np.float64]

SHIPPED = "as shipped"
"""The rule that takes a method's defaults."""
WORST, AVERAGE = "worst_group_accuracy", "weighted_accuracy"
"""Measures of the two axes; the average is weighted by the groups' shares of the training rows."""


def _worst_group(line: Line, split: str, right: Sequence[int]) -> float:
    return min(float(hits / rows) for hits, rows in zip(right, line["rows"][split], strict=True))


def _worst_class(line: Line, split: str, right: Sequence[int]) -> float:
    sums: dict[str, list[int]] = {}
    for label, hits, rows in zip(line["classes"], right, line["rows"][split], strict=True):
        total = sums.setdefault(label, [0, 0])
        total[0], total[1] = total[0] + hits, total[1] + rows
    return min(hits / rows for hits, rows in sums.values())


def _plain_average(line: Line, split: str, right: Sequence[int]) -> float:
    return float(sum(right) / sum(line["rows"][split]))


class SelectionRule(NamedTuple):
    """Split whose rows choose a setting, and the score that is largest for it."""

    split: str
    score: Callable[[Line, str, Sequence[int]], float]


RULES = {
    "worst-group": SelectionRule("validation", _worst_group),
    "train-groups": SelectionRule("train", _worst_group),
    "worst-class": SelectionRule("validation", _worst_class),
    "average": SelectionRule("validation", _plain_average),
}
"""Rules by the names of the command line, and the average."""


class GroupStudy:
    """Records by set, method and seed; `methods` are those that every set has."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines: dict[str, dict[str, dict[int, Line]]] = {}
        for line in lines:
            self.lines.setdefault(line["set"], {}).setdefault(line["method"], {})[line["seed"]] = line
        self.sets = [name for name in SETS if name in self.lines]
        self.methods = [method for method in NEEDS if all(method in self.lines[name] for name in self.sets)]

    def scores(self, name: str, method: str | None, rule: str, measure: str = WORST) -> Floats:
        """A measure on the test rows of each seed, in %, of the setting that a rule chooses.

        Without a method the rule chooses it as well; ties go to the earlier one.
        """
        values = []
        for seed in sorted(self.lines[name][self.methods[0]]):
            lines = [self.lines[name][each][seed] for each in (self.methods if method is None else [method])]
            best = max(lines, key=lambda line: _score(line, rule, _choose(line, rule)))
            values.append(100 * best["results"][_choose(best, rule)]["test"][measure])
        return np.array(values)


def within_one_error(values: Mapping[str, Floats]) -> list[str]:
    """The key of the largest mean, and those at most its standard error below it; the largest first."""
    ranked = sorted(values, key=lambda key: -round(float(values[key].mean()), 9))
    best = values[ranked[0]]
    least = best.mean() - (standard_error(best.tolist()) if len(best) > 1 else 0.0) - 1e-9
    return [key for key in ranked if values[key].mean() >= least]


def _score(line: Line, rule: str, index: int) -> float:
    if rule == SHIPPED:
        return 0.0
    split, score = RULES[rule]
    return score(line, split, line["results"][index]["right"][split])


def _choose(line: Line, rule: str) -> int:
    """Index of the setting with the largest score; ties go to the earlier one, first of all to the defaults."""
    return max(range(len(line["results"])), key=lambda index: _score(line, rule, index))
