"""Checks of scalar and string arguments: messages give what was expected, what was found, what to do."""

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from momentalign._format import suggest

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def check_number(name: str, value: object) -> float:
    """Return `value` as a float if it is a real number; booleans are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"'{name}' should be a number, but is {value!r}.")
    return float(value)


def check_nonnegative(name: str, value: object, advice: str = "") -> float:
    """Return `value` as a number if it is finite and not negative."""
    number = check_number(name, value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"'{name}' should be finite and not below 0, but is {value!r}.{advice}")
    return number


def check_weight(name: str, value: object) -> float:
    """Return `value` as a number if it can be the weight of a term: finite and not negative."""
    return check_nonnegative(name, value, " Use 0 to switch the term off.")


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


def check_holdout(value: object) -> None:
    """Check the share of each domain in its "out" split."""
    if not 0 <= check_number("holdout", value) < 1:
        raise ValueError(f"'holdout' should be at least 0 and below 1, but is {value}.")


def check_column(name: str, shape: tuple[int, ...], rows: int, of: str) -> None:
    """Check that an array is a column with one entry for each of the `rows` rows of the array `of`."""
    if shape != (rows,):
        raise ValueError(f"'{name}' should have one entry per row of '{of}' ({rows}), but has shape {shape}.")


def check_labels(name: str, labels: "NDArray[Any]", rows: int, of: str) -> None:
    """Check that an array is a column of labels, none of them missing."""
    check_column(name, labels.shape, rows, of)
    missing = find_missing(labels)
    if missing:
        raise ValueError(
            f"'{name}' should hold a label for every row, but {len(missing)} are missing, first in row {missing[0]}. "
            "Drop these rows or give them a label."
        )


def find_missing(labels: "NDArray[Any]") -> list[int]:
    """Rows whose label is None, NaN, NaT or pandas' NA."""
    # Strings, integers and booleans cannot be missing.
    if labels.dtype.kind not in "fcmMO":
        return []
    return [row for row, label in enumerate(labels.tolist()) if _is_missing(label)]


def check_blanks(name: str, labels: Iterable[object]) -> None:
    """Check that no label is blank, and that no two of these different labels differ by blanks only."""
    seen: dict[str, str] = {}
    for label in labels:
        if isinstance(label, str):
            if not label.strip():
                raise ValueError(
                    f"'{name}' should hold a label for every row, but some are {label!r}. Drop these rows or give them "
                    "a label."
                )
            other = seen.setdefault(" ".join(label.split()), label)
            if other != label:
                raise ValueError(
                    f"'{name}' should be spelled alike, but {other!r} and {label!r} differ by blanks only. "
                    f"Strip the labels, e.g. by [' '.join(label.split()) for label in {name}]."
                )


def _is_missing(label: object) -> bool:
    return (
        label is None or type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, Real) and label != label)
    )
