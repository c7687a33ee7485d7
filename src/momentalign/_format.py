"""Counts, lists, durations and sizes as text."""

import difflib
import re
from collections.abc import Container, Iterable, Sequence


def pluralize(number: int, noun: str) -> str:
    """Format a count: "1 run", "2 runs", "2 sets of hyper-parameters", "2 addresses"."""
    first, of, rest = noun.partition(" of ")
    ending = "" if number == 1 else "es" if first.endswith("s") else "s"
    return f"{number} {first}{ending}{of}{rest}"


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence: "a", "a and b", "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def join_first(names: Sequence[str], limit: int = 8) -> str:
    """The first names of a long list: "a, b and 12 more"."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def join_ends(names: Sequence[str], limit: int = 12) -> str:
    """The first and the last names of a long list: "a, b, … (12 more), y, z".

    Example:
        >>> join_ends(["a", "b", "c", "d", "e", "f"], 4)
        'a, b, … (2 more), e, f'
    """
    if len(names) <= limit:
        return ", ".join(names)
    half = limit // 2
    return ", ".join([*names[:half], f"… ({len(names) - 2 * half} more)", *names[-half:]])


def plain_name(name: str) -> str:
    """A name without spaces around it, runs of spaces and differences of case."""
    return " ".join(name.casefold().split())


def suggest(name: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelt name, to append to a message: " Did you mean 'cma'?", or nothing.

    Example:
        >>> suggest("SITE", ["y", "site "])
        " Did you mean 'site '?"
    """
    names = {plain_name(other): other for other in known}
    near = difflib.get_close_matches(plain_name(name), names, 1)
    return f" Did you mean '{names[near[0]]}'?" if near else ""


def slug(text: str) -> str:
    """Text as a part of a file name, a label or an anchor: lower-case letters, digits and single hyphens.

    Example:
        >>> slug("Office-Home (probe)")
        'office-home-probe'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def format_duration(seconds: float) -> str:
    """Format a duration in two units at most.

    Example:
        >>> [format_duration(seconds) for seconds in (0.0042, 0.42, 12, 192, 7512, 200000)]
        ['4.2 ms', '0.4 s', '12 s', '3 min 12 s', '2 h 5 min', '2 days 8 h']
    """
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole, minutes = round(seconds), round(seconds / 60)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        (first, rest), unit, smaller = divmod(whole, 60), "min", "s"
    elif minutes < 48 * 60:
        (first, rest), unit, smaller = divmod(minutes, 60), "h", "min"
    else:
        (first, rest), unit, smaller = divmod(round(seconds / 3600), 24), "days", "h"
    return f"{first} {unit} {rest} {smaller}" if rest else f"{first} {unit}"


def format_size(size: float) -> str:
    """Format a number of bytes in KiB, MiB or GiB."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{max(1, round(size / 2**10))} KiB"


def align_columns(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Lines of a text table, the columns in `right` right-aligned.

    Example:
        >>> align_columns([["", "n"], ["rows", "12"]], right=[1])
        ['       n', 'rows  12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def printable(text: str, keep: str = "") -> str:
    r"""Escape control characters, which could move the cursor, break a line or reverse the reading direction.

    Characters in `keep` are left alone, for instance the line breaks of a text of several lines.

    Example:
        >>> print(printable("a\nb\x1b[31m"))
        a\nb\x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in keep else character.encode("unicode_escape").decode()
        for character in text
    )
