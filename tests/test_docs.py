"""The documentation covers what there is: a page for each package, every command and option."""

import sys
from pathlib import Path

import typer.main

import momentalign
from momentalign.cli import app

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS / "extensions"))

import commands  # noqa: E402  (after its folder is on the path)


def test_every_package_has_a_page() -> None:
    pages = {path.stem for path in (DOCS / "api").glob("*.md")}
    assert pages == {*momentalign._MODULES, "index"}


def test_command_reference_is_complete() -> None:
    reference = "\n".join(commands.reference())
    for name, command in typer.main.get_command(app).commands.items():
        assert f"## momentalign {name}\n" in reference
        for child in [command, *getattr(command, "commands", {}).values()]:
            for parameter in child.params:
                assert all(option in reference for option in [*parameter.opts, *parameter.secondary_opts])
