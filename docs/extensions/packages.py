"""Document packages by their `__all__`: `<!-- package NAME -->` in a page becomes a table of names and entries.

A name is documented by the package that defines it. References to the private module where the code is, as in type
hints, resolve to that entry, and so do public names in backquotes on the pages in Markdown.
"""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import isclass, isroutine
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms import SphinxTransform

PLACEHOLDER = re.compile(r"<!-- package ([\w.]+) -->")
NAME = re.compile(r"(?:momentalign\.)?(?:\w+\.)?(\w*[A-Z_]\w*)(?:\(\))?")
"""Names that are no usual words: `select` and `run` are commands and rules too."""
LONGEST_VALUE = 100

_documented: dict[str, str] = {}
"""Public name by the name of the module that has the code."""


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", _find_names)
    app.connect("source-read", _fill_in)
    app.connect("missing-reference", _resolve)
    app.connect("html-page-context", _link_back)
    app.add_transform(LinkedNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class LinkedNames(SphinxTransform):
    """Link code such as `CMA` and `group_report` to its entry, but for headings, links and the reference itself."""

    default_priority = 500

    def apply(self, **options: Any) -> None:
        """Replace the code of the page by references."""
        page = self.env.docname
        if page.startswith("api/") or self.env.doc2path(page).suffix != ".md":
            return
        for code in list(self.document.findall(nodes.literal)):
            entry = _public_name(code.astext()) if NAME.fullmatch(code.astext()) else None
            if entry and not isinstance(code.parent, (nodes.title, nodes.reference, pending_xref)):
                link = pending_xref(refdomain="py", reftype="obj", reftarget=entry, refdoc=page, refexplicit=True)
                code.replace_self(link)
                link += code


def _find_names(app: Sphinx) -> None:
    for page in sorted(Path(app.srcdir).rglob("*.md")):
        for name in PLACEHOLDER.findall(page.read_text(encoding="utf-8")):
            list(_entries(import_module(name)))


def _fill_in(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = PLACEHOLDER.sub(lambda match: "\n".join(_reference(import_module(match[1]))), source[0])


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> Any:
    target = _public_name(node.get("reftarget", "")) if node.get("refdomain") == "py" else None
    if target is None:
        return None
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)


def _public_name(target: str) -> str | None:
    """Return the entry of a name: from the private module where its code is, or the name alone."""
    path = target.split(".")
    for length in range(len(path), 0, -1):
        public = _documented.get(".".join(path[:length]))
        if public:
            return ".".join([public, *path[length:]])
    match = NAME.fullmatch(target)
    return next((entry for entry in _documented.values() if match and entry.endswith(f".{match[1]}")), None)


def _link_back(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let source pages link to entries that exist: viewcode takes all names of a module for those of one package."""

    def mend(match: re.Match[str]) -> str:
        path = match[0].split(".")
        ends = (".".join(path[start:]) for start in range(len(path)))
        return next((name for end in ends for name in entries if name == end or name.endswith(f".{end}")), match[0])

    if page.startswith("_modules/"):
        entries = app.env.get_domain("py").objects
        context["body"] = re.sub(r'(?<=#)[\w.]+(?=">\[docs\])', mend, context["body"])


def _entries(package: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the public names that the package defines, with their values."""
    import momentalign

    for name in package.__all__:
        value = getattr(package, name)
        home = getattr(value, "__module__", None) or ""
        parts = home.split(".")
        elsewhere = len(parts) > 1 and parts[0] == "momentalign" and not parts[1].startswith("_")
        if name.startswith("__") or (package is not momentalign and name in momentalign.__all__):
            continue
        if isclass(value) or isroutine(value):
            if elsewhere and not f"{home}.".startswith(f"{package.__name__}."):
                continue
            entry = f"{package.__name__}.{name}"
            if _documented.setdefault(f"{home}.{value.__qualname__}", entry) != entry:
                continue
        yield name, value


def _reference(package: ModuleType) -> Iterator[str]:
    name = package.__name__
    entries = list(_entries(package))
    yield from ("```{eval-rst}", f".. automodule:: {name}", "   :no-members:", "", f".. currentmodule:: {name}", "")
    yield from (".. list-table::", "   :widths: auto", "   :class: names", "")
    for public, value in entries:
        if isclass(value) or isroutine(value):
            summary = (value.__doc__ or "").strip().split("\n\n")[0]
            yield from (f"   * - :py:obj:`{public}`", f"     - {' '.join(summary.split())}")
    yield ""
    for public, value in entries:
        if isclass(value):
            kind = "exception" if issubclass(value, BaseException) else "class"
            yield from (f".. auto{kind}:: {public}", "   :members:")
            yield from ("   :exclude-members: set_fit_request, set_score_request, get_metadata_routing", "")
        elif isroutine(value):
            yield from (f".. autofunction:: {public}", "")
        else:
            yield from _constant(package, public, value)
    yield "```"


def _constant(package: ModuleType, public: str, value: Any) -> Iterator[str]:
    """Yield the entry of a constant, whose docstring follows its definition in some module of the package."""
    yield f".. data:: {public}"
    shown = re.sub(r"\b(?:\w+\.)+(?=[A-Z]\w+)", "", repr(value)) if hasattr(value, "__origin__") else repr(value)
    if len(shown) <= LONGEST_VALUE and " at 0x" not in shown:
        yield f"   :value: {shown}"
    yield ""
    for name in [package.__name__, *(key for key in sorted(sys.modules) if key.startswith(f"{package.__name__}."))]:
        if getattr(sys.modules[name], public, None) is value:
            docs = ModuleAnalyzer.for_module(name).find_attr_docs().get(("", public))
            if docs:
                yield from (f"   {line}" for line in docs)
                yield ""
                return
