"""Names are other people's: in no format may they be more than text."""

import re

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
    "[": "{[}",  # after the end of a row either of these two would be read as its argument
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
    r"""Text that LaTeX prints as it is.

    Args:
        text: Any text.

    Returns:
        The text with every character that LaTeX would act on replaced.

    Example:
        >>> print(escape_latex("50% & x_1"))
        50\% \& x\_1
    """
    return "".join(_LATEX.get(character, character) for character in printable(text))


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is, also inside a pipe table.

    Args:
        text: Any text.

    Returns:
        The text with markup escaped and HTML made harmless.

    Example:
        >>> print(escape_markdown("<b> a|b_c"))
        &lt;b&gt; a\|b\_c
    """
    safe = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", safe)
