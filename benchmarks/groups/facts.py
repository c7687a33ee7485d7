"""Numbers in the sentences of docs/results/groups.md."""

from collections.abc import Iterable

from benchmarks.groups.methods import NEEDS
from benchmarks.groups.sets import SETS
from benchmarks.groups.study import AVERAGE, SHIPPED, WORST, GroupStudy
from benchmarks.groups.tables import COMPARED
from benchmarks.markdown import mean_with_error, number

LOW = 50.0
"""ERM's worst group counts as failed below this."""


def sentence_numbers(study: GroupStudy) -> dict[str, str]:
    """Ranges over the sets, by the names of their blocks."""
    facts = {}
    failed = [name for name in study.sets if study.scores(name, "erm", SHIPPED).mean() < LOW]
    for method in COMPARED:
        if method in study.methods:
            worst, average = (
                [_difference(study, name, method, "erm", SHIPPED, measure) for name in failed]
                for measure in (WORST, AVERAGE)
            )
            facts[f"{method}-gain"] = _range(worst)
            facts[f"{method}-cost"] = _range([-each for each in average])
    if set(COMPARED) <= set(study.methods):
        losses = [_difference(study, name, "subsampled", "search", SHIPPED, WORST) for name in study.sets]
        facts["search-loss"] = _range(losses)
        facts["search-loss-mean"] = mean_with_error(losses)
    aligned = {name: _difference(study, name, "cma", "balanced", "worst-group", WORST) for name in study.sets}
    for kind, made in (("tables", False), ("pacs", True)):
        gains = [gain for name, gain in aligned.items() if bool(SETS[name].classes) == made]
        facts[f"alignment-{kind}"] = _range(gains, sign=True)
    facts["alignment-mean"] = mean_with_error(aligned.values(), sign=True)
    losses = []
    for name in study.sets:
        means = {method: study.scores(name, method, "worst-group").mean() for method in study.methods}
        losses.append(max(means.values()) - max(means[key] for key in means if NEEDS[key] == "labels"))
    facts["labels-loss"] = _range(losses)
    return facts


def _difference(study: GroupStudy, name: str, method: str, other: str, rule: str, measure: str) -> float:
    mine, theirs = (study.scores(name, each, rule, measure) for each in (method, other))
    return float((mine - theirs).mean())


def _range(values: Iterable[float], *, sign: bool = False) -> str:
    """Smallest and largest value, as `1.0 to 3.2`."""
    ordered = sorted(values)
    return f"{number(ordered[0], sign=sign)} to {number(ordered[-1], sign=sign)}" if ordered else "–"
