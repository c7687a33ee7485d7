"""Which tests run which lines, gathered once by running a package's tests under coverage."""

import ast
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_SHARED = "fixture "

CASES = 12
"""Cases of a parametrised test that are run first, spread over all of them: a mutant seldom lives in a few cases only.

The others are tried before a mutant has survived.
"""


def some_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """At most `CASES` of each test function's cases, spread over all of them, in their order."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[function_of(item.nodeid)].append(item)
    kept = {id(group[k * len(group) // CASES]) for group in cases.values() for k in range(CASES)}
    return [item for item in items if id(item) in kept]


def function_of(test: str) -> str:
    """Name of a test without its case."""
    return test.partition("[")[0]


@dataclass
class TestMap:
    """Tests with their durations in seconds, and for each line of each module the tests that run it."""

    __test__ = False

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]

    def covering(self, source: str, path: str, line: int) -> set[str]:
        """Tests that run the statement of a line; for what runs at import, those that run any line of the module."""
        found = self.lines.get(path, {})
        start, stop, runs_at_import = _statement(source, line)
        if runs_at_import:
            return {test for tests in found.values() for test in tests}
        return {test for number in range(start, stop + 1) for test in found.get(number, ())}

    def add(self, other: "TestMap") -> None:
        """Add the tests of another map."""
        self.seconds |= other.seconds
        for path, rows in other.lines.items():
            for line, tests in rows.items():
                self.lines.setdefault(path, {}).setdefault(line, []).extend(tests)

    def of_file(self, name: str) -> "TestMap":
        """Part of one test file."""
        seconds = {test: value for test, value in self.seconds.items() if test.partition("::")[0] == name}
        lines: dict[str, dict[int, list[str]]] = {}
        for path, rows in self.lines.items():
            kept = {line: [test for test in tests if test in seconds] for line, tests in rows.items()}
            lines[path] = {line: tests for line, tests in kept.items() if tests}
        return TestMap(seconds, {path: rows for path, rows in lines.items() if rows})


def _statement(source: str, line: int) -> tuple[int, int, bool]:
    """First and last line of the innermost statement's own lines, and whether they run at import."""
    start, stop, inside = 1, len(source.splitlines()), False

    def visit(body: Iterable[ast.stmt], function: bool) -> None:
        nonlocal start, stop, inside
        for node in body:
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            if not first <= line <= (node.end_lineno or 0):
                continue
            blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            blocks += [handler.body for handler in getattr(node, "handlers", [])]
            blocks += [case.body for case in getattr(node, "cases", [])]
            heads = [block[0].lineno for block in blocks if block]
            start, stop, inside = first, min(heads, default=(node.end_lineno or 0) + 1) - 1, function
            stop = max(start, stop)
            if any(head <= line for head in heads):
                start = stop = line  # an except clause or an else, unless a statement inside is found
            for block in blocks:
                visit(block, function or isinstance(node, ast.FunctionDef))

    visit(ast.parse(source).body, False)
    return start, stop, not inside


@dataclass(eq=False)
class Gather:
    """Pytest plugin that measures coverage test by test and makes a `TestMap`.

    What a fixture of a wider scope than one test runs is counted for all tests that use the fixture.
    """

    project: Path
    failed: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    users: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        import coverage

        self.context = ""
        folder = self.project / "src" / "momentalign"
        self.coverage = coverage.Coverage(data_file=None, include=[f"{folder}/*"], config_file=False)
        self.coverage.start()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = some_cases(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        for name in getattr(item, "fixturenames", []):
            self.users[name].add(item.nodeid)
        self._switch(item.nodeid)
        result = yield
        self._switch("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        before = self.context
        if fixturedef.scope != "function":
            self._switch(_SHARED + fixturedef.argname)
        try:
            return (yield)
        finally:
            self._switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif not report.skipped:
            self.seconds[report.nodeid] += report.duration

    def finish(self) -> TestMap:
        """Stop measuring and return what was found; tests that were skipped or failed are left out."""
        self.coverage.stop()
        data = self.coverage.get_data()
        lines: dict[str, dict[int, list[str]]] = {}
        for path in data.measured_files():
            rows = lines[str(Path(path).relative_to(self.project))] = {}
            for line, contexts in data.contexts_by_lineno(path).items():
                tests = {test for context in contexts for test in self._tests(context)}
                rows[line] = sorted(tests & set(self.seconds) - set(self.failed))
        return TestMap({test: value for test, value in self.seconds.items() if test not in self.failed}, lines)

    def _switch(self, context: str) -> None:
        self.context = context
        self.coverage.switch_context(context)

    def _tests(self, context: str) -> set[str]:
        return self.users[context.removeprefix(_SHARED)] if context.startswith(_SHARED) else {context}
