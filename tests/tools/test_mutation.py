"""The parts of the mutation script that need no mutation tool."""

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.mutation._coverage import CASES, TestMap, some_cases
from tools.mutation._rules import SkippedPlaces
from tools.mutation._trial import _InOrder, _OtherCases

PROJECT = Path(__file__).resolve().parents[2]

SOURCE = """\
from functools import lru_cache


def first(x: int | None = 3) -> int | float:
    if x is None:
        raise ValueError(f"x is {x + 1}")
    elif x > 4:
        return (
            x +
            1
        )
    return sum(a * b for a, b in zip([x], [x], strict=True))


@lru_cache(maxsize=4)
def second(): return 2 - 1


chart = [base.mark_point(size=38, opacity=5), {"fontSize": 11, "opacity": 6}, rng.normal(size=7)]
"""


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ("| None", True),  # annotation
        ("3)", False),  # default
        ("| float", True),
        ("+ 1}", True),  # message
        ("> 4", False),
        ("a * b", False),
        ("True", True),  # strict of zip
        ("maxsize", True),  # decorator for speed
        ("- 1", False),
        ("38", True),  # pixels
        ("11", True),
        ("5)", False),
        ("6}", False),
        ("7)", False),  # no option of a chart
    ],
)
def test_what_is_skipped(text: str, skipped: bool) -> None:
    line, row = next((line, row) for line, row in enumerate(SOURCE.splitlines(), start=1) if text in row)
    assert SkippedPlaces(SOURCE).covers(line, row.index(text)) is skipped


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (4, {"default", "value", "sum"}),  # a default is set at import: all tests of the module
        (7, {"value", "sum"}),  # the condition of an elif
        (10, {"value"}),  # inside a statement of several lines
        (12, {"sum"}),
    ],
)
def test_tests_of_a_line(line: int, expected: set[str]) -> None:
    rows = {5: ["default"], 7: ["value", "sum"], 8: ["value"], 9: ["value"], 12: ["sum"]}
    assert TestMap({}, {"m.py": rows}).covering(SOURCE, "m.py", line) == expected


def test_equivalent_mutants_are_of_lines_that_exist() -> None:
    listed = tomllib.loads((PROJECT / "tools" / "mutation" / "equivalent.toml").read_text()).get("mutant", [])
    for row in listed:
        lines = (PROJECT / "src" / "momentalign" / row["path"]).read_text().splitlines()
        assert row["original"] in {line.strip() for line in lines}, row
        assert row.get("mutated") != row["original"]
        assert row["reason"]


def items(*counts: int) -> list[Any]:
    """Tests a, b, … with so many cases each."""
    return [
        SimpleNamespace(nodeid=f"t.py::{'abc'[k]}[{case}]") for k, count in enumerate(counts) for case in range(count)
    ]


def test_all_cases_are_tried_before_a_mutant_has_survived() -> None:
    collected = items(30, 3)
    first = some_cases(collected)
    assert [item.nodeid.partition("[")[0][-1] for item in first] == ["a"] * CASES + ["b"] * 3
    directly = list(collected)
    _InOrder(Path("note")).pytest_collection_modifyitems(directly)
    assert directly[: len(first)] == first
    assert {item.nodeid for item in directly} == {item.nodeid for item in collected}
    later = items(30, 3, 3)
    known = {item.nodeid: 1.0 for item in first}
    _OtherCases({first[0].nodeid, "t.py::b[0]"}, known, Path("note")).pytest_collection_modifyitems(later)
    assert {item.nodeid for item in later} == {item.nodeid for item in collected} - known.keys()
