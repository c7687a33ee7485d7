"""The answer of a table in words: what was gained over ERM and where, and what it cost."""

import math
from collections.abc import Sequence

from momentalign._format import join_first, join_names, pluralize
from momentalign.published import WORST_GROUP
from momentalign.report._comparison import LEVEL_POINTS, MOST_TRIALS, Comparison, Finding, PairedDifference
from momentalign.report._names import algorithm_label

_MOST_DOMAINS = 4  # that the sentence goes through; of more it has the mean and those that differ most
_MOST_LISTED = 24  # differences of other methods, by domain; of more the means over domains are listed
_MOST_NAMED = 3  # in a line
_LINES = {
    Finding.BETTER: "Better than ERM",
    Finding.WORSE: "Worse than ERM",
    Finding.UNCERTAIN: "Too uncertain to tell",
}


def describe(comparison: Comparison | None) -> list[str]:
    """A note, a line each for the other methods that are better, worse or uncertain, and a sentence on the best one."""
    if comparison is None:
        return []
    if not comparison.differences:
        return ["No trial and test domain in common with ERM to compare. Is erm among the sweep's --algorithms?"]
    if all(each.error is None for each in comparison.differences):
        return [_sentence(comparison)]
    others = [each for each in comparison.differences if each.algorithm != comparison.best.algorithm]
    listed = [each for each in others if (each.domain is None) == (len(others) > _MOST_LISTED)]
    lines = [
        _line(title, own)
        for verdict, title in _LINES.items()
        if (own := [each for each in listed if each.verdict == verdict])
    ]
    return [_note(comparison), *lines, _sentence(comparison)]


def _note(comparison: Comparison) -> str:
    differences = comparison.differences
    several = len({each.domain for each in differences}) > 2  # more than a domain and the mean, which equals it
    made = pluralize(sum(several or each.domain is not None for each in differences), "comparison")
    averaged = " (averages with averages)" * any("+" in each.baseline for each in differences)
    return (
        f"{made} with ERM{averaged}, paired by trial; of 20 between equal methods, one 95% interval excludes 0. Level "
        f"within {LEVEL_POINTS:g} points."
    )


def _line(title: str, differences: Sequence[PairedDifference]) -> str:
    """The largest of these differences."""
    ordered = sorted(differences, key=lambda each: -abs(each.points))
    mean = ordered[0].domain is None
    named = [
        f"{algorithm_label(each.algorithm)}{'' if mean else ' ' + _where(each)} by {' ('.join(_numbers(each))})"
        for each in ordered
    ]
    return f"{title}{', ' + _where(ordered[0]) if mean else ''}: {join_first(named, _MOST_NAMED)}{_needed(ordered)}."


def _sentence(comparison: Comparison) -> str:
    best, shown = comparison.best, comparison.best_by_domain
    if len(shown) > _MOST_DOMAINS:
        shown = [best, *(each for each in shown if each.found)][:_MOST_DOMAINS]
    label, start = algorithm_label(best.algorithm), ""
    if all(each.error is None for each in shown):
        start = "With one trial there is no interval: "
    elif not any(each.verdict == Finding.BETTER for each in comparison.differences):
        start, label = "Nothing is better than ERM: ", f"{label}, with the largest mean,"
    clauses: list[str] = []
    for verdict in Finding:
        found = [each for each in shown if each.verdict == verdict]
        for part in [found] if verdict == Finding.LEVEL and found else [[each] for each in found]:
            clauses.append(_clause(part, "" if clauses else label))
    text = f"{start}{'; '.join(clauses)}{_cost(comparison)}."
    return text[0].upper() + text[1:]


def _clause(differences: Sequence[PairedDifference], label: str) -> str:
    """What one verdict says of the best method; the first clause names it and its baseline."""
    first = differences[0]
    verdict, (size, details) = first.verdict, _numbers(first)
    if label and first.error is not None:
        details = f"95% interval {details}, {pluralize(first.trials, 'trial')}"
    what, than = f"{size} points {verdict}", "than"
    if verdict == Finding.LEVEL:
        what, than = "level", "with"
        within = math.ceil(max(abs(end) for each in differences for end in each.interval) - 1e-6)
        details = f"within {pluralize(within, 'point')}" if within else "the same"
    elif verdict == Finding.UNCERTAIN:
        what, than, details = verdict, "apart from", f"{size} points, {details}{_needed(differences)}"
    if label:
        label, what = f", {label}", f"{what} {than} {algorithm_label(first.baseline)}"
    return f"{_where(*differences)}{label or ' it'} is {what} ({details})"


def _cost(comparison: Comparison) -> str:
    """What the best method cost in accuracy on the rows that it knows, and in time; empty if neither is known."""
    best, parts = comparison.best.algorithm, []
    if best in comparison.costs:
        points = comparison.costs[best]
        groups = comparison.differences[0].domain == WORST_GROUP
        rows = "all rows" if groups else "the held-out rows of its training domains"
        parts.append(
            f"where it differs most it {'gained' if points > 0 else 'cost'} {abs(points):.1f} points on {rows}"
        )
    if best in comparison.times:
        parts.append(f"its runs took about {comparison.times[best]:.1f} times as long")
    return f"; {' and '.join(parts)}" if parts else ""


def _where(*differences: PairedDifference) -> str:
    names = join_names(["average over domains" if each.domain is None else each.domain for each in differences])
    return f"on {'the ' * (names == WORST_GROUP)}{names}"


def _numbers(difference: PairedDifference) -> tuple[str, str]:
    """Points and interval, positive for a method that is worse."""
    side = -1 if difference.verdict == Finding.WORSE else 1
    low, high = sorted(side * end for end in difference.interval)
    decimals = 2 if difference.found and low < 0.05 else 1
    size, *ends = (f"{number:z.{decimals}f}" for number in (side * difference.points, low, high))
    return size, "one trial" if difference.error is None else " to ".join(ends)


def _needed(differences: Sequence[PairedDifference]) -> str:
    """How many trials would tell :data:`LEVEL_POINTS` points; nothing if there are as many."""
    number = max(each.trials_needed if each.verdict == Finding.UNCERTAIN else 0 for each in differences)
    if number <= max(each.trials for each in differences):
        return ""
    about = f"about {number}" if number <= MOST_TRIALS else f"more than {MOST_TRIALS}"
    return f"; {about} trials would tell {LEVEL_POINTS:g} points"
