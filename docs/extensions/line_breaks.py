"""Line breaks: a name or an option such as `--test-domain` breaks only where it is longer than a phone's line.

Columns of text keep a width at which they can be read, also beside columns of numbers, which do not break.
"""

import re
from typing import Any, ClassVar

from docutils import nodes
from pygments.lexers.shell import BashLexer
from pygments.token import Name
from sphinx.application import Sphinx

LONGEST_WORD = 38
LONGEST_WORD_IN_TABLE = 28
SHORTEST_TEXT = 30
SHORTEST_TEXT_BESIDE_NUMBERS = 16
LONG_TEXT = 60
WORDS_OF_TEXT = 3


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
    app.connect("doctree-read", _mark_text)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _mark_long_words(app: Sphinx, document: nodes.document) -> None:
    for code in document.findall(nodes.literal):
        parent = code.parent
        while parent and not isinstance(parent, nodes.entry):
            parent = parent.parent
        longest = LONGEST_WORD_IN_TABLE if parent else LONGEST_WORD
        if any(len(word) > longest for word in code.astext().split()):
            code["classes"].append("breaks")


def _mark_text(app: Sphinx, document: nodes.document) -> None:
    for table in document.findall(nodes.table):
        cells = list(table.findall(nodes.entry))
        beside_numbers = any("text-right" in cell["classes"] for cell in cells)
        for cell in cells:
            text = cell.astext()
            numbers = "text-right" in cell["classes"] and len(re.findall(r"[a-z]{2,}", text)) < WORDS_OF_TEXT
            if not numbers and len(text) >= (SHORTEST_TEXT_BESIDE_NUMBERS if beside_numbers else SHORTEST_TEXT):
                cell["classes"].append("text")
            if beside_numbers and len(text) >= LONG_TEXT:
                cell["classes"].append("long-text")
