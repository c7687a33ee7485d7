"""Mutation scores: ``python -m tools.mutation [PACKAGE ...] [--mutants N] [--sample K]``."""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path

from tools.mutation._coverage import TestMap
from tools.mutation._gather import covered_by, test_files
from tools.mutation._mutants import Mutant, make_mutant, package_places
from tools.mutation._trial import TIME_WAS_UP, append, copy_project, enter_copy, try_files, try_other_cases, try_tests

PROJECT = Path(__file__).resolve().parents[2]

TESTS = {
    "closed_form": ["tests/closed_form", "tests/penalties", "tests/test_functional.py"],
    "penalties": ["tests/penalties", "tests/algorithms/test_search_space.py"],
    "linear": ["tests/linear", "tests/sklearn"],
    "selection": ["tests/selection", "tests/test_worst_group.py"],
    "theory": ["tests/theory"],
    "probing": ["tests/probing"],
    "report": ["tests/report"],
}
"""Packages that are mutated, with their tests; the package's doctests are among them."""

TESTS_OF_ALL = ["tests/test_defaults.py"]
"""Tests that belong to all of them."""

BOUND = 0.9

_NEAREST = 3
"""Test files of a module that are tried before the others are collected."""


def main() -> int:
    """Try a sample of mutants and print the scores; 1 where the total is below the bound."""
    options = _options()
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    results = work / f"sample-{options.sample}-of-{options.mutants}.jsonl"
    if options.report:
        return _summary(_rows(results), options.packages)
    copy = work / "copy"
    copy_project(PROJECT, copy)
    enter_copy(copy)
    for package in options.packages:
        _try_package(package, copy, work, results, options)
    return _summary(_rows(results), options.packages)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(TESTS)}; all by default")
    parser.add_argument("--mutants", type=int, default=40, help="mutants of a package (default: 40)")
    parser.add_argument("--sample", type=int, default=0, help="which sample of so many; small packages start over")
    parser.add_argument("--direct", action="store_true", help="no coverage: all tests, those of the module first")
    parser.add_argument("--survivors", action="store_true", help="try again what survived, after new tests")
    parser.add_argument("--report", action="store_true", help="only print the scores of what was tried")
    parser.add_argument("--seconds", type=float, default=12, help="of tests for a mutant, shortest first (default: 12)")
    default = Path(tempfile.gettempdir()) / "momentalign-mutation"
    parser.add_argument("--work", type=Path, default=default, help=f"copy, coverage and results (default: {default})")
    options = parser.parse_args()
    unknown = set(options.packages) - set(TESTS)
    if unknown:
        parser.error(f"expected packages of {', '.join(TESTS)}, found {', '.join(sorted(unknown))}")
    options.packages = options.packages or list(TESTS)
    options.work = options.work.resolve()
    return options


def _try_package(package: str, copy: Path, work: Path, results: Path, options: argparse.Namespace) -> None:
    files = test_files(copy, [*TESTS[package], *TESTS_OF_ALL, f"src/momentalign/{package}"])
    found: TestMap | None = None
    equivalent = _equivalent()
    for mutant in _sample(copy, package, options.sample, options.mutants):
        key, path = mutant.place.key, mutant.place.path
        row: dict[str, object] = {"package": package, "key": key, "line": mutant.place.line}
        row |= {"original": mutant.original, "mutated": mutant.mutated}
        before = _rows(results).get(key)
        if equivalent & {(path, mutant.original, mutant.mutated), (path, mutant.original, None)}:
            if before is None or before["outcome"] != "equivalent":
                append(results, row | {"outcome": "equivalent", "test": ""})
            continue
        again = before and before["outcome"] == "survived" and (options.survivors or before["test"] == TIME_WAS_UP)
        if before and not again:
            continue
        start = time.monotonic()
        if options.direct:
            outcome, test = _try_directly(mutant, files, copy, work, options.seconds)
        else:
            found = found or covered_by(copy, files, work / "coverage")
            outcome, test = _try_mutant(mutant, found, copy, work, options.seconds)
        append(results, row | {"outcome": outcome, "test": test})
        print(
            f"{outcome:9} {time.monotonic() - start:5.1f} s  {path}:{mutant.place.line}  {mutant.mutated}", flush=True
        )


def _sample(copy: Path, package: str, sample: int, count: int) -> list[Mutant]:
    """Mutants of one sample, past the last place from the first on; those that are no Python count for nothing."""
    places = package_places(copy, package)
    indices = dict.fromkeys(index % len(places) for index in range(sample * count, (sample + 1) * count))
    mutants = [make_mutant((copy / places[index].path).read_text(), places[index]) for index in indices]
    return [mutant for mutant in mutants if mutant is not None]


def _try_mutant(mutant: Mutant, found: TestMap, copy: Path, work: Path, seconds: float) -> tuple[str, str]:
    """Try the tests that run the line; then the others of their files, should a cached helper have hidden some.

    Last come the cases of parametrised tests that the coverage was gathered without.
    """
    path = copy / mutant.place.path
    source = path.read_text()
    covering = found.covering(source, mutant.place.path, mutant.place.line)
    chosen = _within(covering, found, seconds)
    files = {test.partition("::")[0] for test in chosen}
    others = {test for test in found.seconds if test.partition("::")[0] in files} - chosen
    left = TIME_WAS_UP if len(chosen) < len(covering) else ""
    try:
        path.write_text(mutant.code)
        for tests in (chosen, _within(others - covering, found, seconds / 3)):
            if tests:
                limit = 20 + 4 * sum(found.seconds[test] for test in tests)
                outcome, test = try_tests(tests, found, work, limit)
                if outcome != "survived":
                    return outcome, test
        if chosen:
            outcome, test = try_other_cases(chosen, found, work, 10 + seconds / 2)
            if outcome != "survived":
                return outcome, test
            left = left or test
    finally:
        path.write_text(source)
    return "survived", left if chosen else "no test runs this line"


def _try_directly(mutant: Mutant, files: list[str], copy: Path, work: Path, seconds: float) -> tuple[str, str]:
    """Try all tests for some seconds: doctests, the test file named after the module, those that name most of it.

    Files that are marked as slow come after the others.
    """
    path = copy / mutant.place.path
    source = path.read_text()
    defined = set(re.findall(r"^(?:def|class) (\w+)", source, re.MULTILINE))

    def rank(name: str) -> tuple[bool, bool, bool, int]:
        text = (copy / name).read_text()
        near = Path(name).stem.removesuffix("s") == f"test{path.stem.removesuffix('s')}"
        slow = "pytestmark = pytest.mark.slow" in text
        return name != mutant.place.path, slow, not near, -len(set(re.findall(r"\w+", text)) & defined)

    ranked = sorted(files, key=rank)
    left = ""
    try:
        path.write_text(mutant.code)
        for some in filter(None, (ranked[:_NEAREST], ranked[_NEAREST:])):  # collecting all of them takes seconds
            outcome, test = try_files(some, work, seconds)
            if outcome != "survived":
                return outcome, test
            left = left or test
    finally:
        path.write_text(source)
    return "survived", left


def _within(tests: set[str], found: TestMap, seconds: float) -> set[str]:
    """As many of the shortest tests as fit into a time."""
    chosen, total = set(), 0.0
    for test in sorted(tests, key=lambda name: (found.seconds[name], name)):
        total += found.seconds[test]
        if total > seconds and chosen:
            break
        chosen.add(test)
    return chosen


def _equivalent() -> set[tuple[str, str, str | None]]:
    listed = tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text())
    return {(f"src/momentalign/{row['path']}", row["original"], row.get("mutated")) for row in listed.get("mutant", [])}


def _rows(path: Path) -> dict[str, dict[str, str]]:
    """Read results, the last of each mutant; a torn last line is left out."""
    rows: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows[row["key"]] = row
    return rows


def _summary(rows: dict[str, dict[str, str]], packages: list[str]) -> int:
    caught = tried = 0
    print(f"{'package':12} {'mutants':>8} {'killed':>7} {'survived':>9} {'equivalent':>11} {'score':>6}")
    for package in packages:
        count = Counter(row["outcome"] for row in rows.values() if row["package"] == package)
        killed = count["killed"] + count["timeout"]
        caught, tried = caught + killed, tried + killed + count["survived"]
        score = f"{killed / (killed + count['survived']):.1%}" if killed + count["survived"] else "-"
        total = sum(count.values())
        print(f"{package:12} {total:8} {killed:7} {count['survived']:9} {count['equivalent']:11} {score:>6}")
    for row in rows.values():
        if row["outcome"] == "survived" and row["package"] in packages:
            remark = f" ({row['test']})" if row["test"] else ""
            print(
                f"{row['key'].partition(' | ')[0]}:{row['line']}{remark}\n  - {row['original']}\n  + {row['mutated']}"
            )
    print(f"total {caught / tried:.1%} of {tried} mutants (bound {BOUND:.0%})" if tried else "nothing tried")
    return 0 if tried and caught / tried >= BOUND else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a process that has forked leaves its libraries' threads alone
