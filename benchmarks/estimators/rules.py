"""Rules that the search could have had, applied to the scores of its candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.estimators.candidates import FACTORS, INCUMBENT, PLAIN_FACTORS, Candidate, Scores
from benchmarks.estimators.cells import SMALL_ROWS
from benchmarks.estimators.sets import SETS, part_of
from benchmarks.markdown import number, table
from benchmarks.records import Line
from momentalign._types import Array

MIXED = "mean of both accuracies"
LOG_LOSS = "class log loss"


@dataclass(frozen=True)
class SearchRule:
    """When a step away from the incumbent is taken.

    Args:
        kinds: Kinds of candidates of all sets.
        intercepts: Whether models with an intercept for each domain are candidates of classifiers, and of regressions.
        factors: L2 of plain models, in units of 1/n.
        score: Name of the score of classifiers; that of regressions is RMSE.
        errors: Standard errors that the mean gain has to exceed.
        least: Least mean gain, a share.
        loss: Most that a fold may lose, a share; None for no limit.
        losing: Whether one fold in five may lose more, in classifications and in regressions.
        domains: Least number of training domains.
        joint: All candidates in one step, instead of L2 first.
        wins: Least share of folds that gain.
        by_loss: Whether the log loss, classes weighted equally, may be the evidence for another L2, if the score gains
            in the mean.
    """

    kinds: Sequence[str] = ("plain", "alike", "aligned")
    intercepts: tuple[bool, bool] = (False, True)
    factors: Sequence[float] = FACTORS
    score: str = "balanced accuracy"
    errors: float = 1.0
    least: float = 0.001
    loss: float | None = 0.01
    losing: tuple[bool, bool] = (False, True)
    domains: int = 3
    joint: bool = False
    wins: float = 0.0
    by_loss: bool = False

    def choose(self, record: Line) -> Candidate:
        """The candidate that is chosen in a cell."""
        if record["domains"] < self.domains or not any(record["inner"].values()):
            return INCUMBENT
        plain = [Candidate("plain", factor) for factor in self.factors]
        regression = "RMSE" in record["inner"][str(INCUMBENT)]
        kinds = [*self.kinds, "intercepts"] if self.intercepts[regression] else self.kinds
        others = [Candidate(kind, factor) for kind in kinds if kind != "plain" for factor in FACTORS]
        if self.joint:
            return self._step(record["inner"], INCUMBENT, [*plain, *others])
        chosen = self._step(record["inner"], INCUMBENT, plain)
        return self._step(record["inner"], chosen, [each for each in others if each.factor == chosen.factor])

    def _step(self, inner: Mapping[str, Scores], reference: Candidate, candidates: Sequence[Candidate]) -> Candidate:
        best, most = reference, 0.0
        for candidate in candidates:
            ours, theirs = inner[str(candidate)], inner[str(reference)]
            gains, losing = self._gains(ours, theirs), self.losing["RMSE" in ours]
            evident = self._evident(gains, losing=losing)
            if self.by_loss and candidate.kind == "plain" and LOG_LOSS in ours:
                shares = 1 - np.array(ours[LOG_LOSS]) / np.array(theirs[LOG_LOSS])
                evident = evident or self._evident(shares, losing=losing)
            if evident and gains.mean() > most + 1e-12:
                best, most = candidate, float(gains.mean())
        return best

    def _evident(self, gains: Array, *, losing: bool) -> bool:
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        certain = gains.mean() > self.errors * error + 1e-12 and gains.mean() >= self.least
        lost = 0 if self.loss is None else (gains < -self.loss * (1 + 1e-9)).sum()
        harmless = lost <= (len(gains) // 5 if losing else 0)
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
NO_INTERCEPTS = "no intercepts for domains"
INTERCEPTS = "intercepts for domains in classifiers too"
STRICT = "no fold may lose more than a point"
LOSING = "one fold in five may lose more in classifications too"
ANY_GAIN = "gains of less than a tenth of a point as well"
BY_LOSS = "another L2 also if the log loss is evidence and the score gains"
RULES = {
    THE_RULE: SearchRule(),
    NO_INTERCEPTS: SearchRule(intercepts=(False, False)),
    INTERCEPTS: SearchRule(intercepts=(True, True)),
    STRICT: SearchRule(losing=(False, False)),
    LOSING: SearchRule(losing=(True, True)),
    ANY_GAIN: SearchRule(least=0.0),
    "L2 only": SearchRule(kinds=("plain",), intercepts=(False, False)),
    "any mean gain, no standard error": SearchRule(errors=0.0),
    "more than two standard errors": SearchRule(errors=2.0),
    "no limit on what a domain may lose": SearchRule(loss=None),
    "no domain may lose anything": SearchRule(loss=0.0, losing=(False, False)),
    "at least four domains instead of three": SearchRule(domains=4),
    "both steps at once": SearchRule(joint=True),
    "a gain on three domains of four besides": SearchRule(wins=0.75),
    "L2 in half decades": SearchRule(factors=PLAIN_FACTORS),
    "by the mean of accuracy and balanced accuracy": SearchRule(score=MIXED),
    "by the log loss, classes weighted equally": SearchRule(score=LOG_LOSS),
    BY_LOSS: SearchRule(by_loss=True),
}
ONLY_REGRESSIONS = (NO_INTERCEPTS, STRICT)
ONLY_CLASSIFIERS = (INTERCEPTS, LOSING, "by the mean", "by the log loss", BY_LOSS)
CONFIRMED = (THE_RULE, NO_INTERCEPTS, INTERCEPTS, STRICT, LOSING, ANY_GAIN, BY_LOSS)
"""Rules that were run on the sets that confirm, old and fresh."""


def gains_of(
    rule: SearchRule, records: Sequence[Line], part: str, *, regression: bool, small: bool
) -> dict[str, float]:
    """Gain of a rule over the incumbent on each set of a part: points of accuracy, or % of RMSE (below 0 is better)."""
    score = "RMSE" if regression else "accuracy"
    by_set: dict[str, list[Line]] = {}
    for record in records:
        name, draw, _ = record["cell"].split("/")
        if part_of(name) == part and SETS[name].regression == regression and (draw != "0") == small:
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
        if part != "settle" and name not in CONFIRMED:
            continue
        row = [name]
        for regression, small in columns:
            gains = list(gains_of(rule, records, part, regression=regression, small=small).values())
            extreme = max if regression else min
            values = (float(np.mean(gains)), extreme(gains)) if gains else ()
            same = name.startswith(ONLY_CLASSIFIERS if regression else ONLY_REGRESSIONS)
            row.append("" if same else " / ".join(number(value, 2, sign=True) for value in values))
        rows.append(row)
    sizes = {False: "all rows", True: f"{SMALL_ROWS} rows"}
    heads = [f"{'RMSE' if regression else 'accuracy'}, {sizes[small]}" for regression, small in columns]
    return table(["", *heads], rows)
