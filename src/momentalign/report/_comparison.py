"""Differences from ERM on the same trials and test domains, stated only where they exceed their uncertainty."""

import math
from dataclasses import dataclass

import pandas as pd

from momentalign._format import join_names, pluralize
from momentalign.report._cases import Case, GroupedSweep
from momentalign.report._names import algorithm_label, algorithm_order
from momentalign.selection import RECORD_RULES

COMPARISON_NOTE = (
    "Differences are paired: mean over the trials and test domains that a method shares with ERM. A difference is "
    "stated if its interval (Student's t over trials, over test domains if there is one trial) excludes 0. The "
    "intervals of a line hold jointly with 95%: of 20 lines on methods that equal ERM, one may name a method."
)

_ERROR_RATE = 0.05
_ROUNDING = 1e-6  # points; smaller differences come from floating-point sums


@dataclass(frozen=True)
class PairedDifference:
    """Accuracy of an algorithm minus that of a baseline, in points.

    Args:
        algorithm: Name of the algorithm.
        points: Mean difference; None if no trial and test domain has both.
        error: Half the width of the interval; None if a single difference leaves no uncertainty to compute.
        sample: What the interval is over, such as "3 trials".
    """

    algorithm: str
    points: float | None
    error: float | None
    sample: str

    @property
    def found(self) -> bool:
        """Whether the interval excludes 0."""
        return self.points is not None and self.error is not None and abs(self.points) > max(self.error, _ROUNDING)


def paired_differences(chosen: pd.DataFrame, baseline: str = "erm", *, jointly: bool = False) -> list[PairedDifference]:
    """Compare algorithms with a baseline on the same trials and test domains.

    Differences are averaged over test domains within each trial; the interval is Student's t over these means, with
    trials - 1 degrees of freedom. If fewer than two trials have all test domains, it is over the single differences.

    Args:
        chosen: Result of :func:`momentalign.selection.select` for one data set and setting.
        baseline: Name of the algorithm to compare with.
        jointly: Whether the intervals of all algorithms hold together with 95% (Bonferroni), rather than each of them.

    Returns:
        One for each other algorithm, in the order of the catalogue; empty if the baseline is missing.
    """
    domains = chosen["test_domain"].fillna("")  # worst-group selection has none
    keys = ["trial", "test_domain"]
    tests = chosen.assign(test_domain=domains).pivot(index=keys, columns="algorithm", values="test")
    if baseline not in tests:
        return []
    others = sorted((str(name) for name in tests if name != baseline), key=algorithm_order)
    level = 1 - _ERROR_RATE / (max(1, len(others)) if jointly else 1)
    return [_difference(name, 100 * (tests[name] - tests[baseline]).dropna(), level) for name in others]


def _difference(algorithm: str, points: pd.Series, level: float) -> PairedDifference:
    from scipy.stats import t

    by_trial = points.unstack("test_domain").dropna()
    if len(by_trial) > 1:
        values, sample = by_trial.mean(axis=1), pluralize(len(by_trial), "trial")
    else:
        one_trial = points.index.get_level_values("trial").nunique() == 1
        values, sample = points, pluralize(len(points), "test domain" if one_trial else "pair of runs")
    if values.empty:
        return PairedDifference(algorithm, None, None, "")
    error = None
    if len(values) > 1:
        error = float(t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
    return PairedDifference(algorithm, float(values.mean()), error, sample)


def headlines(grouped: GroupedSweep) -> list[str]:
    """Differences from ERM, one line per data set and rule; the oracle's only if no other rule applies."""
    lines = []
    for case in grouped.cases:
        applying = [rule for rule, chosen in grouped.choices.items() if chosen["run"].isin(case.runs.index).any()]
        shown = [rule for rule in applying if rule in RECORD_RULES] or applying[:1]
        lines += [f"{case.title}, {rule} selection: {_finding(case, grouped.choices[rule])}" for rule in shown]
    return lines


def _finding(case: Case, choices: pd.DataFrame) -> str:
    chosen = choices[choices["run"].isin(case.runs.index)]
    names = set(chosen["algorithm"])
    if "erm" not in names:
        return "nothing to compare with, as no run of ERM could be selected. Add erm to the sweep's --algorithms."
    if len(names) == 1:
        return "nothing to compare, as only ERM could be selected."
    differences = paired_differences(chosen, jointly=True)
    parts = [_statement(difference) for difference in differences if difference.found]
    level = [d for d in differences if d.error is not None and not d.found]
    single = [d for d in differences if d.points is not None and d.error is None]
    apart = [d for d in differences if d.points is None]
    if level:
        parts.append(f"No difference from ERM found for {_labels(level)}.")
    if single:
        parts.append(f"One trial of one test domain cannot show a difference from ERM for {_labels(single)}.")
    if apart:
        parts.append(f"No trial and test domain in common with ERM: {_labels(apart)}.")
    return " ".join(parts)


def _statement(difference: PairedDifference) -> str:
    assert difference.points is not None
    assert difference.error is not None
    side = "above" if difference.points > 0 else "below"
    size = abs(difference.points)
    low, high = max(size - difference.error, 0.0), size + difference.error
    digits = 1 if low >= 0.1 else 2
    label = algorithm_label(difference.algorithm)
    interval = f"joint 95% interval {low:.{digits}f} to {high:.{digits}f}, {difference.sample}"
    return f"{label} is {size:.{digits}f} points {side} ERM ({interval})."


def _labels(differences: list[PairedDifference]) -> str:
    return join_names([algorithm_label(difference.algorithm) for difference in differences])
