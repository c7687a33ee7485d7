"""The structure of the package: floors, public imports, one name for one thing, declared dependencies."""

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
import torch

from momentalign import CMA

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "src" / "momentalign"

FLOORS = (
    "published",
    "closed_form",
    "functional",
    "penalties",
    "linear",
    "sklearn",
    "theory",
    "tables",
    "data",
    "encoders",
    "algorithms",
    "runs",
    "selection",
    "training",
    "probing",
    "sweep",
    "report",
    "reproduce",
    "bench",
    "hub",
    "cli",
)
"""From top to bottom: a floor imports only floors above it. Top-level private modules serve all floors."""

MODULES = sorted(path for path in PACKAGE.rglob("*.py"))

TREES = {path: ast.parse(path.read_text()) for path in MODULES}

DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "vl_convert": "vl-convert-python"}
"""Import names that differ from the distribution that pip installs."""

WITH_TORCH = {"triton"}
"""Installed by PyTorch where it can be used."""


def floor_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Dotted names of all modules and names that a module imports, at its top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_floors(path: Path) -> set[str]:
    names = (name.split(".") for name in imported_modules(TREES[path]))
    return {name[1] for name in names if name[0] == "momentalign" and len(name) > 1} - {floor_of(path)}


def public_names(tree: ast.Module) -> Iterator[str]:
    """Public names that a module defines at its top level."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def test_every_package_is_a_floor() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_")}
    assert packages | modules == set(FLOORS)


@pytest.mark.parametrize("floor", FLOORS)
def test_floors_import_only_floors_above(floor: str) -> None:
    allowed = set(FLOORS[: FLOORS.index(floor)])
    for path in MODULES:
        if floor_of(path) == floor:
            below = (imported_floors(path) & set(FLOORS)) - allowed
            assert not below, f"{path.relative_to(PROJECT)} imports {sorted(below)}"


def test_shared_modules_import_no_floor_in_circles() -> None:
    """A top-level private module and what it imports never import each other."""
    graph: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        if floor_of(path) not in ("__init__", "__main__"):
            graph[floor_of(path)] |= imported_floors(path) - {"__version__"}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"circle: {' -> '.join([*above, name])}"
        if name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_no_private_imports_across_packages() -> None:
    private = []
    for path in MODULES:
        for name in imported_modules(TREES[path]):
            parts = name.split(".")
            other = parts[0] == "momentalign" and len(parts) > 2 and parts[1] != floor_of(path)
            if other and not parts[1].startswith("_") and any(part.startswith("_") for part in parts[2:]):
                private.append(f"{path.relative_to(PROJECT)}: {name}")
    assert not private, "make them public in their package's __init__:\n" + "\n".join(private)


def test_names_are_unique() -> None:
    modules = defaultdict(list)
    for path in MODULES:
        for name in public_names(TREES[path]):
            modules[name].append(str(path.relative_to(PACKAGE)))
    clashes = {name: paths for name, paths in modules.items() if len(paths) > 1}
    # momentalign.load is momentalign.training.load, imported only when it is called.
    assert clashes.pop("load", None) in (None, ["__init__.py", "training/_predictor.py"])
    assert not clashes, "\n".join(f"{name}: {', '.join(paths)}" for name, paths in sorted(clashes.items()))


def test_dependencies_are_declared() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = [
        rows
        for name, rows in project["optional-dependencies"].items()
        if name not in ("dev", "docs", "mutation", "audit", "release")
    ]
    declared = {re.split(r"[<>=\[ ]", row)[0] for rows in [project["dependencies"], *extras] for row in rows}
    roots = {name.partition(".")[0] for tree in TREES.values() for name in imported_modules(tree)}
    others = roots - set(sys.stdlib_module_names) - {"momentalign"} - WITH_TORCH
    missing = {name for name in others if DISTRIBUTIONS.get(name, name) not in declared}
    assert not missing, f"imported but not in pyproject.toml: {sorted(missing)}"


def test_a_batch_with_cma_crosses_at_most_six_files() -> None:
    penalty, files = CMA(), set()
    features, logits = torch.randn(12, 3, requires_grad=True), torch.randn(12, 5, requires_grad=True)

    def call() -> None:
        penalty(features, logits, torch.arange(12) % 5, torch.arange(12) % 3).backward()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if "momentalign" in (name := frame.f_code.co_filename) and "tests" not in name:
            files.add(name)

    call()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    assert 1 < len(files) <= 6
