"""Figures of the gallery: what an example saves as `NAME.svg` in its folder."""

from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst

FONTS = "Arial, Helvetica, Liberation Sans, Arimo, sans-serif"


def collect_figures(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Move the figures that a block has saved to the page, and return its text for them."""
    moved = []
    for path in sorted(Path(variables["src_file"]).parent.glob("*.svg")):
        place = Path(next(variables["image_path_iterator"])).with_suffix(".svg")
        # The drawing has room for text as wide as in Arial and its metric twins.
        text = path.read_text(encoding="utf-8").replace('font-family="sans-serif"', f'font-family="{FONTS}"')
        place.write_text(text, encoding="utf-8")
        path.unlink()
        moved.append(str(place))
    return figure_rst(moved, settings["src_dir"], Path(variables["src_file"]).stem.replace("_", " "))


def _get_sg_image_scraper() -> Any:
    return collect_figures
