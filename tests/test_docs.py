"""The documentation covers what there is: a page for each package, every command and option."""

import re
import sys
from pathlib import Path

import typer.main

import momentalign
from momentalign.cli import app

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS / "extensions"))

import commands  # noqa: E402  (after its folder is on the path)
import offline  # noqa: E402


def test_every_package_has_a_page() -> None:
    pages = {path.stem for path in (DOCS / "api").glob("*.md")}
    assert pages == {*momentalign._MODULES, "index"}


def test_command_reference_is_complete() -> None:
    reference = "\n".join(commands.reference()).lower()  # some releases of typer write arguments in capitals
    for name, command in typer.main.get_command(app).commands.items():
        assert f"## momentalign {name}\n" in reference
        for child in [command, *getattr(command, "commands", {}).values()]:
            for parameter in child.params:
                assert all(option in reference for option in [*parameter.opts, *parameter.secondary_opts])


def test_command_reference_names_types_and_defaults_plainly() -> None:
    reference = "\n".join(commands.reference())
    assert not re.findall(r"\{option\}.*<(?!\w+>)", reference)  # one word a type
    assert "default: (" not in reference
    assert r"\[default: y\]" in reference  # of --target


def test_no_line_of_a_paragraph_begins_with_a_comment() -> None:
    """Markdown ends the paragraph there."""
    for path in sorted(DOCS.rglob("*.md")):
        assert not re.findall(r"^ *<!-- begin [a-z0-9-]+ -->.+", path.read_text(encoding="utf-8"), re.MULTILINE), path


def test_pages_that_fetch_from_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://links.example/">a link</a> <img src="figure.svg">'
        '<script async="async" src="https://scripts.example/x.js"></script>'
        '<link href="//styles.example/y.css" rel="stylesheet"><link rel="canonical" href="https://links.example/">'
    )
    (tmp_path / "site.css").write_text('@font-face { src: url("https://fonts.example/z.woff2"), url("ours.woff2") }')
    assert offline.outside_addresses(tmp_path) == [
        "page.html: https://scripts.example/x.js",
        "page.html: //styles.example/y.css",
        "site.css: https://fonts.example/z.woff2",
    ]
