"""Text as LaTeX and as Markdown: names from data cannot add markup."""

import re
from collections.abc import Iterable, Sequence

from momentalign._format import printable

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # at the start of a row, "[" and "*" would be read as arguments of the preceding \\
    "*": "{*}",
    "±": r"$\pm$",
    "–": "--",
    "†": r"\dag{}",
    "√": r"$\surd$",
    "×": r"$\times$",
    "²": r"\textsuperscript{2}",
}
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$])")


def escape_latex(text: str) -> str:
    r"""Escape text for LaTeX.

    Example:
        >>> print(escape_latex("50% & x_1"))
        50\% \& x\_1
    """
    return "".join(_LATEX.get(character, character) for character in printable(text))


def escape_markdown(text: str) -> str:
    r"""Escape text for Markdown, HTML and pipes included.

    Example:
        >>> print(escape_markdown("<b> a|b_c"))
        &lt;b&gt; a\|b\_c
    """
    safe = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", safe)


def markdown_table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a pipe table, its text escaped; all columns but the first are aligned to the right."""
    lines = ["| " + " | ".join(map(escape_markdown, cells)) + " |" for cells in (heads, *rows)]
    return [lines[0], "|---|" + "--:|" * (len(heads) - 1), *lines[1:]]
