"""Render formulas as MathML while the pages are built: no script, and nothing to fetch."""

import re
from html import escape
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# What the converter lacks, in its own words: \big alone, \dots, \frac12, space around operators; and a line above
# capitals, which an accent would touch.
REWRITES = (
    (re.compile(r"\\([bB]igg?)(?![a-zA-Z])\s*(\(|\[|\\\{|\\l[A-Za-z]+)"), r"\\\1l\2"),
    (re.compile(r"\\([bB]igg?)(?![a-zA-Z])"), r"\\\1r"),
    (re.compile(r"\\dots(?![a-zA-Z])"), r"\\ldots"),
    (re.compile(r"\\([td]?frac)\s*(\d)(\d)"), r"\\\1{\2}{\3}"),
    (re.compile(r"\\bar\s*([A-Z])"), r"\\overline{\1}"),
    (re.compile(r"(?<=[\w}])\s*(\\operatorname\{)"), r"\\,\1"),
    (re.compile(r"(\\operatorname\{\w+\})\s*(?=[a-zA-Z]|\\[a-zA-Z])"), r"\1\\,"),
)
FENCES = "‖|⌈⌉⌊⌋⟨⟩"
ACCENTS = "ˉ^~_"
UPRIGHT = "∇ΓΔΘΛΞΠΣΦΨΩ"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_convert(node, as_block=False))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    # Wide formulas scroll in a box of their own; with the keyboard too.
    translator.body.append(f'<div class="formula" tabindex="0">{_convert(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _convert(node: nodes.math | nodes.math_block, as_block: bool) -> str:
    tex = node.astext()
    for pattern, replacement in REWRITES:
        tex = pattern.sub(replacement, tex)
    try:
        result = tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", tex, error, location=node)
        return f"<code>{escape(tex)}</code>"
    return _like_latex(result, stretch=r"\left" in tex)


def _like_latex(text: str, stretch: bool) -> str:
    """Bars and brackets grow only where told to, nabla and Greek capitals are upright, indices stand beside accents."""
    math = ElementTree.fromstring(
        text.replace("&ApplyFunction;", "\u2061").replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    )
    for element in math.iter():
        if element.tag == "mo" and not stretch and not element.attrib and (element.text or " ") in FENCES:
            element.set("stretchy", "false")
        elif element.tag == "mi" and (element.text or " ") in UPRIGHT:
            element.set("mathvariant", "normal")
        elif element.tag == "munderover" and (element[2].text or " ") in ACCENTS:
            base, index, accent = element
            element[:] = [ElementTree.Element("mover"), index]
            element[0].extend([base, accent])
            element.tag = "msub"
    return ElementTree.tostring(math, encoding="unicode")
