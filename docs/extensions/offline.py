"""Fail the build if a page would fetch anything from another host: scripts, styles, fonts, images, frames."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests run without Sphinx
    from sphinx.application import Sphinx

FETCHES = (
    re.compile(
        r"""<(?:script|img|iframe|source|video|audio|embed|object|image)\b[^>]*?\s(?:src|href|data)=["']?((?:https?:)?//[^"'\s>]+)"""
    ),
    re.compile(
        r"""<link\b(?=[^>]*rel=["']?(?:stylesheet|preload|icon|preconnect|modulepreload))[^>]*?href=["']?((?:https?:)?//[^"'\s>]+)"""
    ),
    re.compile(r"""(?:url\(|@import\s)\s*["']?((?:https?:)?//[^"')\s]+)"""),
)


def setup(app: "Sphinx") -> dict[str, Any]:
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _check(app: "Sphinx", error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        fetched = outside_addresses(Path(app.outdir))
        if fetched:
            from sphinx.errors import ExtensionError

            raise ExtensionError("Pages may fetch nothing from other hosts. Found: " + "; ".join(fetched[:10]))


def outside_addresses(folder: Path) -> list[str]:
    """Return 'file: address' for everything that pages and style sheets would fetch from elsewhere."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css", ".svg"):
            text = path.read_text(encoding="utf-8")
            found += [f"{path.relative_to(folder)}: {match[1]}" for fetch in FETCHES for match in fetch.finditer(text)]
    return found
