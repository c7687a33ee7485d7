"""The files of versions agree with pyproject.toml."""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
APART = ("docs", "mutation", "audit", "release", "timm")
"""Extras that no test needs: of tools, and timm, which needs torchvision."""


def lowest_versions(apart: tuple[str, ...] = APART) -> dict[str, str]:
    """Names and lower bounds of what the package and its extras need, those `apart` left out."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = [rows for name, rows in project["optional-dependencies"].items() if name not in apart]
    rows = [row for rows in [project["dependencies"], *extras] for row in rows if not row.startswith("momentalign[")]
    bounds = [re.match(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)", row) for row in rows]
    assert all(bounds), "a requirement without a lower bound"
    return {bound[1]: bound[2] for bound in bounds if bound}


def pinned(name: str) -> dict[str, str]:
    lines = (PROJECT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_lowest_versions_are_those_that_are_tested() -> None:
    assert pinned("constraints-min.txt") == lowest_versions()


def test_everything_that_is_needed_has_an_exact_version_for_development() -> None:
    assert sorted(set(lowest_versions(apart=())) - set(pinned("constraints-dev.txt"))) == []
