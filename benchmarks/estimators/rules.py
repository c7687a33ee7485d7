"""Rules that the search could have had, applied to the scores of its candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.estimators.candidates import FACTORS, INCUMBENT, PLAIN_FACTORS, Candidate, Scores
from benchmarks.estimators.cells import SMALL_ROWS
from benchmarks.estimators.sets import SETS, half
from benchmarks.markdown import number, table
from benchmarks.records import Line
from momentalign._types import Array

MIXED = "mean of both accuracies"
LOG_LOSS = "class log loss"


@dataclass(frozen=True)
class SearchRule:
    """When a step away from the incumbent is taken.

    Args:
        kinds: Kinds of candidates.
        factors: L2 of plain models, in units of 1/n.
        score: Name of the score of classifiers; that of regressions is RMSE.
        errors: Standard errors that the mean gain has to exceed.
        loss: Most that a fold may lose, a share; None for no limit.
        domains: Least number of training domains.
        joint: All candidates in one step, instead of L2 first.
        wins: Least share of folds that gain.
        by_loss: Whether the log loss, classes weighted equally, may be the evidence for another L2, if the score gains
            in the mean.
    """

    kinds: Sequence[str] = ("plain", "alike", "aligned")
    factors: Sequence[float] = FACTORS
    score: str = "balanced accuracy"
    errors: float = 1.0
    loss: float | None = 0.01
    domains: int = 3
    joint: bool = False
    wins: float = 0.0
    by_loss: bool = False

    def choose(self, record: Line) -> Candidate:
        """The candidate that is chosen in a cell."""
        if record["domains"] < self.domains or not any(record["inner"].values()):
            return INCUMBENT
        plain = [Candidate("plain", factor) for factor in self.factors]
        others = [Candidate(kind, factor) for kind in self.kinds if kind != "plain" for factor in FACTORS]
        if self.joint:
            return self._step(record["inner"], INCUMBENT, [*plain, *others])
        chosen = self._step(record["inner"], INCUMBENT, plain)
        return self._step(record["inner"], chosen, [each for each in others if each.factor == chosen.factor])

    def _step(self, inner: Mapping[str, Scores], reference: Candidate, candidates: Sequence[Candidate]) -> Candidate:
        best, most = reference, 0.0
        for candidate in candidates:
            ours, theirs = inner[str(candidate)], inner[str(reference)]
            gains = self._gains(ours, theirs)
            evident = self._evident(gains)
            if self.by_loss and candidate.kind == "plain" and LOG_LOSS in ours:
                evident = evident or self._evident(1 - np.array(ours[LOG_LOSS]) / np.array(theirs[LOG_LOSS]))
            if evident and gains.mean() > most + 1e-12:
                best, most = candidate, float(gains.mean())
        return best

    def _evident(self, gains: Array) -> bool:
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        certain = gains.mean() > self.errors * error + 1e-12
        harmless = self.loss is None or gains.min() >= -self.loss * (1 + 1e-9)
        return bool(certain and harmless and (gains > 0).mean() >= self.wins)

    def _gains(self, ours: Scores, theirs: Scores) -> Array:
        """Gain on each fold: a difference, or the share of an error that is gone."""
        if "RMSE" in ours:
            before = np.array(theirs["RMSE"])
            gone: Array = (before - np.array(ours["RMSE"])) / before
            return gone
        return self._values(ours) - self._values(theirs)

    def _values(self, scores: Scores) -> Array:
        if self.score == MIXED:
            mixed: Array = np.mean([scores["accuracy"], scores["balanced accuracy"]], axis=0)
            return mixed
        return np.array(scores[self.score])


THE_RULE = "**the rule**"
BY_LOSS = "another L2 also if the log loss is evidence and the score gains"
RULES = {
    THE_RULE: SearchRule(),
    "L2 only": SearchRule(kinds=("plain",)),
    "any mean gain, no standard error": SearchRule(errors=0.0),
    "more than two standard errors": SearchRule(errors=2.0),
    "no limit on what a domain may lose": SearchRule(loss=None),
    "no domain may lose anything": SearchRule(loss=0.0),
    "at least four domains instead of three": SearchRule(domains=4),
    "both steps at once": SearchRule(joint=True),
    "a gain on three domains of four besides": SearchRule(wins=0.75),
    "L2 in half decades": SearchRule(factors=PLAIN_FACTORS),
    "by the mean of accuracy and balanced accuracy": SearchRule(score=MIXED),
    "by the log loss, classes weighted equally": SearchRule(score=LOG_LOSS),
    BY_LOSS: SearchRule(by_loss=True),
}
ONLY_CLASSIFIERS = ("by the mean", "by the log loss", "another L2 also")
CONFIRMED = (THE_RULE, BY_LOSS)
"""Rules that were run on the half that confirms."""


def gains_of(
    rule: SearchRule, records: Sequence[Line], part: str, *, regression: bool, small: bool
) -> dict[str, float]:
    """Gain of a rule over the incumbent on each set of a half: points of accuracy, or % of RMSE (below 0 is better)."""
    score = "RMSE" if regression else "accuracy"
    by_set: dict[str, list[Line]] = {}
    for record in records:
        name, draw, _ = record["cell"].split("/")
        if half(name) == part and SETS[name].regression == regression and (draw != "0") == small:
            by_set.setdefault(name, []).append(record)
    gains = {}
    for name, cells in by_set.items():
        ours = [value for cell in cells for value in cell["outer"][str(rule.choose(cell))][score]]
        theirs = [value for cell in cells for value in cell["outer"][str(INCUMBENT)][score]]
        change = np.mean(ours) / np.mean(theirs) - 1 if regression else np.mean(ours) - np.mean(theirs)
        gains[name] = 100 * float(change)
    return gains


def rules_table(records: Sequence[Line], part: str) -> str:
    """Mean and least gain over sets of classification, mean and largest change of the error over sets of regression."""
    columns = [(regression, small) for regression in (False, True) for small in (False, True)]
    rows = []
    for name, rule in RULES.items():
        if part == "confirm" and name not in CONFIRMED:
            continue
        row = [name]
        for regression, small in columns:
            gains = list(gains_of(rule, records, part, regression=regression, small=small).values())
            extreme = max if regression else min
            values = (float(np.mean(gains)), extreme(gains)) if gains else ()
            same = regression and name.startswith(ONLY_CLASSIFIERS)
            row.append("" if same else " / ".join(number(value, 2, sign=True) for value in values))
        rows.append(row)
    sizes = {False: "all rows", True: f"{SMALL_ROWS} rows"}
    heads = [f"{'RMSE' if regression else 'accuracy'}, {sizes[small]}" for regression, small in columns]
    return table(["", *heads], rows)
