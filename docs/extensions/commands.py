"""Write the reference of the command line from the commands themselves: `<!-- commands -->` in a page becomes it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests run without Sphinx
    from sphinx.application import Sphinx

PLACEHOLDER = "<!-- commands -->"


def setup(app: "Sphinx") -> dict[str, Any]:
    app.connect("env-get-outdated", _find_pages)
    app.connect("source-read", _fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _find_pages(app: "Sphinx", env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Return the pages with the reference, which change with the commands though their files do not."""
    return [page for page in env.found_docs if PLACEHOLDER in Path(env.doc2path(page)).read_text(encoding="utf-8")]


def _fill_in(app: "Sphinx", page: str, source: list[str]) -> None:
    if PLACEHOLDER in source[0]:
        source[0] = source[0].replace(PLACEHOLDER, "\n".join(reference()))


def reference() -> Iterator[str]:
    """Yield the lines of the page."""
    import typer.main

    from momentalign.cli import app as commands

    os.environ["COLUMNS"] = "100"  # usage lines as wide as a code block
    root = typer.main.get_command(commands)
    yield from _options(root, "momentalign")
    for name, command in sorted(root.commands.items()):
        yield from _command(command, f"momentalign {name}", level=2)


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    yield from ("", "#" * level + f" {path}", "", command.help or "", "")
    yield from _options(command, path)
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield from _command(child, f"{path} {name}", level + 1)


def _options(command: Any, path: str) -> Iterator[str]:
    """Yield the usage of a command, then a directive for each of its arguments and options."""
    context = command.make_context(path, [], resilient_parsing=True)
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield from ("```console", f"$ {usage}", "```", "", f":::{{program}} {path}", ":::", "")
    for parameter in command.get_params(context):
        names, text = parameter.get_help_record(context)
        if names != "--help":
            yield from (f":::{{option}} {_plain_type(names)}", "", _escape(_plain_default(text)), ":::", "")


def _plain_type(names: str) -> str:
    """Name the type of one value: `<path>`, not `<list[Path]>`, and `<int>`, not `<int range>`."""
    return re.sub(r"<(?:list\[)?(\w+)(?:\]| range)?>", lambda match: f"<{match[1].lower()}>", names)


def _plain_default(text: str) -> str:
    """Leave out the round brackets that typer puts around the description of a default."""
    return re.sub(r"\[default: \(([^()]*)\)\]", r"[default: \1]", text)


def _escape(text: str) -> str:
    """Keep Markdown from reading a message's punctuation; options are code, which keeps their dashes."""
    pattern = r"(?P<option>(?<![\w-])--[a-z][a-z-]*)|[\\`*_\[\]<>$|]"
    return re.sub(pattern, lambda match: f"`{match[0]}`" if match["option"] else f"\\{match[0]}", text)
