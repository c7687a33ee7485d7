"""Coverage of test files, stored outside the project and gathered again where a test or what it runs has changed."""

import hashlib
import json
from pathlib import Path

import pytest

from tools.mutation._coverage import Gather, TestMap
from tools.mutation._trial import PYTEST, in_child

LEFT_OUT = (
    *("tests/penalties/test_compile.py", "tests/penalties/test_cuda.py", "tests/penalties/test_gather.py"),
    *("tests/report/test_page_browser.py", "tests/report/test_diagnosis_page.py"),
    "tests/sklearn/test_contract.py",
)
"""Tests of compilers, GPUs, browsers and other processes: they take long for what they would notice here."""


def test_files(project: Path, names: list[str]) -> list[str]:
    """Files with tests under some paths, relative to the project; of the sources those with doctests."""
    found = sorted({path for name in names for path in [project / name, *(project / name).rglob("*.py")]})
    return [
        str(path.relative_to(project))
        for path in found
        if path.is_file() and (path.name.startswith("test_") or ">>> " in path.read_text())
        if str(path.relative_to(project)) not in LEFT_OUT
    ]


def covered_by(project: Path, files: list[str], store: Path) -> TestMap:
    """Return what test files cover, running those whose coverage is missing or old."""
    store.mkdir(parents=True, exist_ok=True)
    stale = [name for name in files if not _is_current(project, name, store)]
    if stale:
        print(f"gathering the coverage of {len(stale)} test files", flush=True)
        _gather(project, stale, store)
    found = TestMap({}, {})
    for name in files:
        saved = json.loads(_path(store, name).read_text())
        lines = {path: {int(line): tests for line, tests in rows.items()} for path, rows in saved["lines"].items()}
        found.add(TestMap(saved["seconds"], lines))
    return found


def _gather(project: Path, files: list[str], store: Path) -> None:
    def work() -> int:
        plugin = Gather(project)
        code = pytest.main([*PYTEST, *files], plugins=[plugin])
        everything = plugin.finish()
        for name in files:
            part = everything.of_file(name)
            hashes = {path: _hash(project / path) for path in [name, *part.lines]}
            saved = {"hashes": hashes, "seconds": part.seconds, "lines": part.lines}
            _path(store, name).write_text(json.dumps(saved))
        for name in plugin.failed:
            print("left out, it fails without a mutant:", name)
        return int(code)

    log = store / "gather.log"
    code = in_child(work, log, limit=3600)
    if code != 0:
        print(f"exit code {code} without a mutant: tests that fail are left out; see {log}", flush=True)


def _is_current(project: Path, name: str, store: Path) -> bool:
    if not _path(store, name).exists():
        return False
    hashes = json.loads(_path(store, name).read_text())["hashes"]
    return all((project / path).exists() and _hash(project / path) == value for path, value in hashes.items())


def _path(store: Path, name: str) -> Path:
    return store / (name.replace("/", "-") + ".json")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
