"""Line breaks: a name or an option such as `--test-domain` breaks only where it is longer than a phone's line.

Beside columns of numbers, which do not break, columns of text keep a width at which they can be read.
"""

from typing import Any, ClassVar

from docutils import nodes
from pygments.lexers.shell import BashLexer
from pygments.token import Name
from sphinx.application import Sphinx

LONGEST_WORD = 38
LONGEST_WORD_IN_TABLE = 24
SHORTEST_TEXT = 16


class CommandLexer(BashLexer):
    """Shell commands whose options are tokens of their own."""

    name = "commands"
    aliases = ("sh",)
    tokens: ClassVar = {
        **BashLexer.tokens,
        "root": [(r"(?<![^\s(])--?[A-Za-z][\w-]*", Name.Attribute), *BashLexer.tokens["root"]],
    }


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_lexer("sh", CommandLexer)
    app.connect("doctree-read", _mark_long_words)
    app.connect("doctree-read", _mark_text_beside_numbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _mark_long_words(app: Sphinx, document: nodes.document) -> None:
    for code in document.findall(nodes.literal):
        parent = code.parent
        while parent and not isinstance(parent, nodes.entry):
            parent = parent.parent
        longest = LONGEST_WORD_IN_TABLE if parent else LONGEST_WORD
        if any(len(word) > longest for word in code.astext().split()):
            code["classes"].append("breaks")


def _mark_text_beside_numbers(app: Sphinx, document: nodes.document) -> None:
    for table in document.findall(nodes.table):
        cells = list(table.findall(nodes.entry))
        if any("text-right" in cell["classes"] for cell in cells):
            for cell in cells:
                if "text-right" not in cell["classes"] and len(cell.astext()) >= SHORTEST_TEXT:
                    cell["classes"].append("text")
