"""Numbers and tables of the results pages as Markdown."""

import math
import statistics
from collections.abc import Iterable, Sequence

GUARD_DIGITS = 9
"""Numbers are rounded to so many digits first: sums that differ in their last bit are printed alike on any machine."""


def number(value: float, digits: int = 1, *, sign: bool = False) -> str:
    """A number with a true minus sign, with `sign` also a plus; zero has none."""
    value = round(round(float(value), GUARD_DIGITS), digits) + 0.0  # no minus zero
    return f"{value:{'+' if sign and value else ''}.{digits}f}".replace("-", "−")


def standard_error(values: Sequence[float]) -> float:
    """Standard error of a mean (ddof 1)."""
    return statistics.stdev(values) / math.sqrt(len(values))


def mean_with_error(values: Iterable[float], digits: int = 1, *, sign: bool = False) -> str:
    """The mean ± its standard error, if there are several."""
    values = [float(value) for value in values]
    text = number(statistics.fmean(values), digits, sign=sign)
    return text if len(values) < 2 else f"{text} ± {number(standard_error(values), digits)}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Iterable[int] = (0,)) -> str:
    """A table; columns are right-aligned but for those in `left`."""
    rule = "".join("---|" if index in set(left) else "--:|" for index in range(len(head)))
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}", *(f"| {' | '.join(row)} |" for row in rows)])
