"""In the long version of the generated tests, the counts of what was tried and what failed."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.generated.cases import PROFILE, TRIED, LostError

_FAILED = {"lost": 0, "wrong": 0, "tracebacks": 0}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report = yield
    if report.failed and call.excinfo is not None and "generated" in item.path.parts:
        kinds = {LostError: "lost", AssertionError: "wrong", BaseException: "tracebacks"}
        _FAILED[next(name for kind, name in kinds.items() if call.excinfo.errisinstance(kind))] += 1
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if PROFILE == "long":
        failed = ", ".join(f"{number} {kind}" for kind, number in _FAILED.items())
        terminalreporter.section("generated cases")
        for name, number in sorted(TRIED.items()):
            terminalreporter.write_line(f"{number:6,} {name}")
        terminalreporter.write_line(f"{sum(TRIED.values()):6,} tried in {len(TRIED)} tests: {failed}")
