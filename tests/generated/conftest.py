"""In the long version of the generated tests, the counts of what was tried and what failed."""

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from tests.generated.cases import PROFILE, TRIED, LostError

_KINDS = {LostError: "lost", AssertionError: "wrong", BaseException: "tracebacks"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Add a test's cases, and what became of it, to its report, which comes from another process under `-n`."""
    report = yield
    if "generated" in item.path.parts:
        report.user_properties += [("tried", [name, number]) for name, number in TRIED.items()]
        TRIED.clear()
        if report.failed and call.excinfo is not None:
            failed = next(name for kind, name in _KINDS.items() if call.excinfo.errisinstance(kind))
            report.user_properties.append(("failed", failed))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if PROFILE == "long":
        tried, failed = Counter[str](), Counter(dict.fromkeys(_KINDS.values(), 0))
        for reports in terminalreporter.stats.values():
            for kind, value in (pair for report in reports for pair in getattr(report, "user_properties", ())):
                if kind == "tried":
                    tried[value[0]] += value[1]
                elif kind == "failed":
                    failed[value] += 1
        terminalreporter.section("generated cases")
        for name, number in sorted(tried.items()):
            terminalreporter.write_line(f"{number:6,} {name}")
        counts = ", ".join(f"{number} {kind}" for kind, number in failed.items())
        terminalreporter.write_line(f"{sum(tried.values()):6,} tried in {len(tried)} tests: {counts}")
