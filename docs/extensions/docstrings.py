"""Mend what autodoc makes of docstrings and type hints: colons in sentences, names that end in _, private modules."""

import re
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

PRIVATE = re.compile(r"\bmomentalign(?:\.\w+)*\._\w+(?:\.\w+)*\.(?=\w+)")
ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _keep_colons, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", _keep_underscores, priority=600)  # after napoleon
    app.connect("autodoc-skip-member", _skip_field_aliases)
    app.connect("object-description-transform", _shorten_unions, priority=400)  # before type hints are added
    app.connect("doctree-resolved", _shorten_private_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _keep_colons(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Types are in signatures, so that what precedes a colon in the text of a result or an attribute is none."""
    texts = [number + 1 for number, line in enumerate(lines[:-1]) if line.strip() in ("Returns:", "Yields:")]
    if what in ("attribute", "property", "data") and lines:
        texts = [0]
    for number in texts:
        lines[number] = re.sub(r"(?=\S)", ": ", lines[number], count=1)  # an empty type


def _keep_underscores(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """A name that ends in an underscore, such as `coef_`, is no reference."""
    lines[:] = [re.sub(r"^(:(?:ivar|vartype) \w+)_:", r"\1\_:", line) for line in lines]


def _skip_field_aliases(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples are documented by their class."""
    return True if (getattr(value, "__doc__", None) or "").startswith("Alias for field number") else None


def _shorten_unions(app: Sphinx, *description: Any) -> None:
    for hints in app.env.current_document.autodoc_annotations.values():
        for name, hint in hints.items():
            hints[name] = hint.replace(ARRAY_LIKE, "ArrayLike")


def _shorten_private_names(app: Sphinx, document: nodes.document, page: str) -> None:
    if page.startswith("api/"):
        for text in list(document.findall(nodes.Text)):
            if PRIVATE.search(text):
                text.parent.replace(text, nodes.Text(PRIVATE.sub("", text)))
