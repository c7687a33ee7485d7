"""Figures of the gallery: what an example saves as `NAME.svg` in its folder. Figures with panels side by side."""

import re
from pathlib import Path
from textwrap import indent
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_gallery.directives import imgsgnode
from sphinx_gallery.scrapers import figure_rst

FONTS = "Arial, Helvetica, Liberation Sans, Arimo, sans-serif"
WIDE = 550
"""Pixels from which a figure cannot be read when it is as small as a phone."""
MARGIN = 16
"""Pixels on the left and the right for fonts that are wider than those that the drawing has room for."""


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", _mark_wide_figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _mark_wide_figures(app: Sphinx, document: nodes.document) -> None:
    for image in document.findall(lambda node: isinstance(node, (nodes.image, imgsgnode))):
        path = Path(app.srcdir, image["uri"].lstrip("/"))
        if path.suffix == ".svg" and path.is_file():
            width = re.search(r'<svg[^>]* width="([\d.]+)', path.read_text(encoding="utf-8"))
            if width and float(width[1]) > WIDE:
                (image.parent if isinstance(image, imgsgnode) else image)["classes"].append("wide")


def collect_figures(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Move the figures that a block has saved to the page, and return its text for them."""
    moved = []
    for path in sorted(Path(variables["src_file"]).parent.glob("*.svg")):
        place = Path(next(variables["image_path_iterator"])).with_suffix(".svg")
        place.write_text(_with_room(path.read_text(encoding="utf-8")), encoding="utf-8")
        path.unlink()
        moved.append(str(place))
    text = figure_rst(moved, settings["src_dir"], Path(variables["src_file"]).stem.replace("_", " "))
    return f"\n.. container:: drawing\n\n{indent(text, '    ')}\n" if moved else ""


def _with_room(drawing: str) -> str:
    """Ask for Arial or a font of the same widths, and add a margin for others."""
    drawing = drawing.replace('font-family="sans-serif"', f'font-family="{FONTS}"')
    width, height = re.search(r'<svg[^>]*? viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing).groups()
    wide = float(width) + 2 * MARGIN
    drawing = drawing.replace(f'viewBox="0 0 {width} {height}"', f'viewBox="{-MARGIN} 0 {wide:g} {height}"', 1)
    return re.sub(r'(<svg[^>]*? width=)"[\d.]+"', rf'\1"{wide:g}"', drawing, count=1)


def _get_sg_image_scraper() -> Any:
    return collect_figures
