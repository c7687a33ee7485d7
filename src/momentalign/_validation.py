"""Checks of scalar and string arguments: messages give what was expected, what was found, what to do."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

from momentalign._format import suggest

SCALINGS = ("none", "classes", "parameters", "relative")


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`."""
    choices = tuple(choices)
    if isinstance(value, str) and value in choices:
        return value
    allowed = ", ".join(f"'{choice}'" for choice in choices)
    suggestion = suggest(value, choices) if isinstance(value, str) else ""
    raise ValueError(f"'{name}' should be one of {allowed}, but is {value!r}.{suggestion}")


def check_names(name: str, values: Sequence[str]) -> Sequence[str]:
    """Return `values` unless it is a single string."""
    if isinstance(values, str):
        raise TypeError(f"'{name}' should be a list of names, but is the string {values!r}. Write [{values!r}].")
    return values


def check_weight(name: str, value: object) -> float:
    """Return `value` as a number if it is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"'{name}' should be a number, but is {value!r}.")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"'{name}' should be finite and not below 0, but is {value!r}. Use 0 to switch the term off.")
    return float(value)


def check_count(name: str, value: object, least: int) -> int:
    """Return `value` if it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"'{name}' should be an integer, but is {value!r}.")
    if value < least:
        raise ValueError(f"'{name}' should be at least {least}, but is {value}.")
    return int(value)


def check_decay(name: str, value: object) -> float:
    """Return `value` as a number if it lies in [0, 1)."""
    number = check_weight(name, value)
    if number >= 1:
        raise ValueError(f"'{name}' should be below 1, but is {value!r}. Use 0 for the current batch alone.")
    return number
