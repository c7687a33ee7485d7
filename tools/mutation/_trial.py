"""Runs of pytest in forked children of a process that has imported the heavy libraries once."""

import contextlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.mutation._coverage import TestMap, function_of, some_cases

HEAVY = (
    *("torch", "torch.func", "torch.distributed", "torch.nn.functional", "numpy", "scipy.optimize", "scipy.stats"),
    *("scipy.spatial", "scipy.sparse.linalg", "sklearn.linear_model", "sklearn.model_selection", "sklearn.metrics"),
    *("sklearn.utils.estimator_checks", "sklearn.pipeline", "sklearn.preprocessing", "pandas", "pyarrow.parquet"),
    *("safetensors.torch", "altair", "jinja2", "typer.testing", "rich.progress", "filelock", "sybil"),
)
"""Imported before the forks. Nothing of ours: every child imports its own mutant."""

TIME_WAS_UP = "time was up"
"""In place of the test that failed: not all tests have been tried."""

MEMORY = 12 * 2**30
"""Bytes of data of a child: a mutant that allocates without end fails instead of filling the machine."""


def copy_project(project: Path, copy: Path) -> None:
    """Copy the files that git tracks or would track, compiled with hashes of their sources in place of times."""
    shutil.rmtree(copy, ignore_errors=True)
    for name in _project_files(project):
        if (project / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(project / name, copy / name)
    compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src", "tests"]
    subprocess.run(compiled, cwd=copy, check=True)


def _project_files(project: Path) -> list[str]:
    if (project / ".git").exists():
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        return subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout.splitlines()
    parts = ["src", "tests", "benchmarks", "tools", "docs", "examples"]
    files = [path for name in parts for path in (project / name).rglob("*") if "__pycache__" not in path.parts]
    return [str(path.relative_to(project)) for path in [*project.glob("*.*"), *files]]


def enter_copy(copy: Path) -> None:
    """Make this process and its children import the package from the copy."""
    os.chdir(copy)
    os.environ.update(PYTHONPATH=str(copy / "src"), PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(copy / "src")]
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    ours = sorted(name for name in sys.modules if name.partition(".")[0] in ("momentalign", "tests"))
    assert not ours, f"imported before the fork: {ours}"


def in_child(work: Callable[[], int], log: Path, limit: float) -> int | None:
    """Run a function in a forked child with its own process group.

    Returns:
        Its exit code, None after the time limit: seconds of CPU time, or ten times as many on the clock, so that a busy
        machine does not look like an endless loop.
    """
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 5))
            output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            code = work()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + 10 * limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _kill_group(child)
            code = os.waitstatus_to_exitcode(status)
            return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code
        time.sleep(0.02)
    _kill_group(child)
    os.waitpid(child, 0)
    return None


def _kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


PYTEST = ["-q", "--assert=plain", "-p", "no:cacheprovider", "--tb=short"]


@dataclass(eq=False)
class _Chosen:
    """Pytest plugin that runs some tests, the file that takes least time first, and notes the first that fails."""

    tests: set[str]
    seconds: dict[str, float]
    note: Path

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.tests]
        cost: dict[str, float] = {}
        for item in items:
            file = item.nodeid.partition("::")[0]
            cost[file] = cost.get(file, 0.0) + self.seconds[item.nodeid]
        items.sort(key=lambda item: cost[item.nodeid.partition("::")[0]])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.note.exists():
            self.note.write_text(report.nodeid)


@dataclass(eq=False)
class _OtherCases(_Chosen):
    """The same of tests whose other cases are known: their remaining cases, the quickest functions first."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cost = {function_of(test): self.seconds[test] for test in self.tests}
        items[:] = [item for item in items if function_of(item.nodeid) in cost and item.nodeid not in self.seconds]
        items.sort(key=lambda item: cost[function_of(item.nodeid)])


@dataclass(eq=False)
class _InOrder:
    """Pytest plugin that runs a few cases of each test, file by file as named, then the others; notes a failure."""

    note: Path

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        first = some_cases(items)
        known = set(map(id, first))
        items[:] = [*first, *(item for item in items if id(item) not in known)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.note.exists():
            self.note.write_text(report.nodeid)


def try_tests(tests: set[str], found: TestMap, folder: Path, limit: float) -> tuple[str, str]:
    """Run tests until one fails; outcome (killed, survived, timeout) and the test that failed."""
    note = folder / "failed.txt"
    return _outcome(_files_of(tests), _Chosen(tests, found.seconds, note), note, limit)


def try_other_cases(tests: set[str], found: TestMap, folder: Path, limit: float) -> tuple[str, str]:
    """Run the cases of parametrised tests that were left out; a mutant that outlives the time has survived."""
    note = folder / "failed.txt"
    outcome, test = _outcome(_files_of(tests), _OtherCases(tests, found.seconds, note), note, limit, none_is_fine=True)
    return ("survived", TIME_WAS_UP) if outcome == "timeout" else (outcome, test)


def _files_of(tests: set[str]) -> list[str]:
    return sorted({test.partition("::")[0] for test in tests})


def try_files(files: list[str], folder: Path, limit: float) -> tuple[str, str]:
    """Run test files in the given order until a test fails; a mutant that outlives the time has survived."""
    note = folder / "failed.txt"
    outcome, test = _outcome(files, _InOrder(note), note, limit)
    return ("survived", TIME_WAS_UP) if outcome == "timeout" else (outcome, test)


def _outcome(
    files: list[str], plugin: object, note: Path, limit: float, *, none_is_fine: bool = False
) -> tuple[str, str]:
    note.unlink(missing_ok=True)

    def work() -> int:
        return int(pytest.main([*PYTEST, "-x", *files], plugins=[plugin]))

    code = in_child(work, note.with_name("trial.log"), limit)
    failed = note.read_text() if note.exists() else ""
    if code is None:
        return "timeout", failed
    if code == 5 and none_is_fine:
        return "survived", ""
    if code == 5:
        raise RuntimeError(f"no test was collected of {files}; gather the coverage again")
    return ("survived" if code == 0 else "killed"), failed or (f"exit code {code}" if code else "")


def append(path: Path, row: dict[str, object]) -> None:
    """Append one row to a file of JSON lines."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
