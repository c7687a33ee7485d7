"""Differences from ERM, paired by trial, as data; `_answer` puts them into words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd
from scipy.special import stdtrit

from momentalign.published import WORST_GROUP
from momentalign.report._names import list_algorithms

LEVEL_POINTS = 2.0
"""Points within which a method counts as level with ERM."""
MOST_TRIALS = 50
"""Largest number of trials that is computed as needed."""

_ROUNDING = 1e-6  # points; smaller differences come from floating-point sums


class Finding(StrEnum):
    """What a 95% interval says of a difference."""

    BETTER = "better"
    WORSE = "worse"
    LEVEL = "level"
    UNCERTAIN = "too uncertain to tell"


@dataclass(frozen=True)
class PairedDifference:
    """Accuracy of an algorithm minus that of its baseline, in points.

    Args:
        algorithm: Name of the algorithm.
        baseline: Name of what it is compared with: ERM, or ERM's averaged weights for averaged weights.
        domain: The test domain; None for the mean over the test domains of each trial.
        points: Mean difference over trials.
        error: Half the width of its 95% interval; None for one trial.
        trials: How many trials have both.
    """

    algorithm: str
    baseline: str
    domain: str | None
    points: float
    error: float | None
    trials: int

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end; infinite for one trial."""
        error = math.inf if self.error is None else self.error
        return self.points - error, self.points + error

    @property
    def verdict(self) -> Finding:
        """Better or worse if the interval excludes 0, level if it is within :data:`LEVEL_POINTS` of 0."""
        low, high = self.interval
        if low > _ROUNDING:
            return Finding.BETTER
        if high < -_ROUNDING:
            return Finding.WORSE
        return Finding.LEVEL if max(-low, high) <= LEVEL_POINTS else Finding.UNCERTAIN

    @property
    def found(self) -> bool:
        """Whether the interval excludes 0."""
        return self.verdict in (Finding.BETTER, Finding.WORSE)

    @property
    def trials_needed(self) -> int:
        """Smallest number of trials whose interval would reach :data:`LEVEL_POINTS` points or less to each side.

        That is for the standard deviation of these trials; 0 for one trial, :data:`MOST_TRIALS` + 1 for any larger one.
        """
        if self.error is None:
            return 0
        deviation = self.error / _reach(self.trials)
        enough = (number for number in range(2, MOST_TRIALS + 1) if deviation * _reach(number) <= LEVEL_POINTS)
        return next(enough, MOST_TRIALS + 1)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The methods of one table against ERM.

    Args:
        differences: Of each method that has runs in common with ERM, by test domain and for the domains' mean.
        costs: Difference on the training domains' held-out rows, for data with groups on all rows, in the runs of the
            test domain whose difference is the largest, by algorithm.
        times: Time of a run relative to ERM, by algorithm, where it is known.
    """

    differences: Sequence[PairedDifference]
    costs: Mapping[str, float]
    times: Mapping[str, float]

    @property
    def best(self) -> PairedDifference:
        """The largest mean over test domains; of averaged weights if any of them gained."""
        means = [each for each in self.differences if each.domain is None] or self.differences
        averaged = [each for each in means if "+" in each.baseline and each.points > 0]
        return max(averaged or means, key=lambda each: each.points)

    @property
    def best_by_domain(self) -> list[PairedDifference]:
        """Differences of the best method on the test domains, the largest first."""
        own = [each for each in self.differences if each.algorithm == self.best.algorithm and each.domain is not None]
        return sorted(own, key=lambda each: -abs(each.points))


def compare(chosen: pd.DataFrame, runs: pd.DataFrame) -> Comparison | None:
    """Compare the methods of one data set and setting with ERM; None if there is only one.

    Args:
        chosen: Result of :func:`momentalign.selection.select`.
        runs: All runs, averaged weights as runs of their own, with a column `seconds`.
    """
    if len({name.partition("+")[0] for name in chosen["algorithm"]}) < 2:
        return None
    differences = paired_differences(chosen)
    costs = paired_differences(chosen, column="average" if "average" in chosen else "held_out")
    baselines = {each.algorithm: each.baseline for each in differences}
    cells = ["test_domains", "trial", "hparams_seed", "device", "algorithm"]
    seconds = runs.groupby(cells, dropna=False)["seconds"].mean().unstack().replace(0, math.nan)
    times = pd.Series({name: (seconds[name] / seconds[own]).median() for name, own in baselines.items()}, dtype=float)
    largest = {each.algorithm: each.domain for each in sorted(differences, key=lambda each: abs(each.points))}
    lost = {each.algorithm: each.points for each in costs if each.domain == largest[each.algorithm]}
    return Comparison(differences, lost, times.dropna().to_dict())


def paired_differences(chosen: pd.DataFrame, baseline: str = "erm", column: str = "test") -> list[PairedDifference]:
    """Compare algorithms with a baseline on the same trials and test domains.

    Averaged weights ("cma+sma") are compared with those of the baseline ("erm+sma"). Intervals are Student's t over
    trials, each for its comparison alone: of 20 between equal algorithms one is expected to exclude 0.

    Args:
        chosen: Result of :func:`momentalign.selection.select` for one data set and setting.
        baseline: Name of the algorithm to compare with.
        column: Accuracy to compare.

    Returns:
        For each other algorithm, in the order of the catalogue, one for each test domain, and one for their mean over
        the trials that have all of them. Empty if the baseline is missing.
    """
    chosen = chosen.assign(test_domain=chosen["test_domain"].fillna(WORST_GROUP))
    tests = 100 * chosen.pivot(index="trial", columns=["algorithm", "test_domain"], values=column)
    domains, found = chosen["test_domain"].unique(), []
    for name in list_algorithms(chosen):
        plain, plus, average = name.partition("+")
        own = baseline + plus + average
        if plain == baseline or own not in tests:
            continue
        points = (tests[name] - tests[own]).reindex(columns=domains).dropna(axis="columns", how="all")
        for domain, values in [*points.items(), (None, points.dropna().mean(axis="columns"))]:
            if count := int(values.count()):
                error = _reach(count) * float(values.std()) if count > 1 else None
                found.append(PairedDifference(name, own, domain, float(values.mean()), error, count))
    return found


def _reach(trials: int) -> float:
    """Half the width of a 95% interval of the mean over trials, for a standard deviation of 1."""
    return float(stdtrit(trials - 1, 0.975)) / math.sqrt(trials)
