"""Visual style of the charts: every name gets a colour, a dash and a shape, so that charts work without colour.

On the page colours are CSS variables, for light, dark and print; figures use the light ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LIGHT = ("#0067a5", "#c9510c", "#00785c", "#a8397f", "#6a4fb3", "#8a6100", "#4a5568", "#b3203f")
DARK = ("#5fb4f5", "#ff9350", "#3fd0a4", "#f093cd", "#b7a1f5", "#e8bd4f", "#b9c2cf", "#ff8fa3")
DASHES: tuple[list[int], ...] = ([], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 4], [9, 3, 2, 3, 2, 3])
"""Seven, coprime to eight colours and eight shapes: 56 names before a style repeats."""
SHAPES = {
    "circle": "M5,0A5,5,0,1,1,-5,0A5,5,0,1,1,5,0Z",
    "square": "M-4.4,-4.4h8.8v8.8h-8.8Z",
    "triangle-up": "M0,-5.2L5.4,4.2H-5.4Z",
    "diamond": "M0,-6L4.6,0L0,6L-4.6,0Z",
    "cross": "M-5.4,-1.8H-1.8V-5.4H1.8V-1.8H5.4V1.8H1.8V5.4H-1.8V1.8H-5.4Z",
    "triangle-down": "M0,5.2L5.4,-4.2H-5.4Z",
    "triangle-right": "M5.2,0L-4.2,5.4V-5.4Z",
    "triangle-left": "M-5.2,0L4.2,5.4V-5.4Z",
}
"""Vega's names, with the SVG paths of the page's own legends."""


_SHADES = {"ink": "#1c1e21", "dim": "#4a5058", "line": "#d9dde2", "bar": "#c7d2de"}
"""Colours of text, lines and bars in files, by the CSS variable of the page."""


def shade(name: str, page: bool) -> str:
    """A CSS variable on the page, its light colour in a file."""
    return f"var(--{name})" if page else _SHADES[name]


def palette(page: bool) -> list[str]:
    """Colours of names: those of the page's scheme, or the light ones for a file."""
    return [f"var(--c{index})" for index in range(len(LIGHT))] if page else list(LIGHT)


@dataclass(frozen=True)
class NameStyles:
    """Names of methods or domains; their order determines colour, dash and shape."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> "NameStyles":
        """Styles of distinct names in order of first occurrence."""
        return cls(tuple(dict.fromkeys(names)))

    def legend(self) -> list[dict[str, Any]]:
        """Entries of the page's legend: name, index of the colour, dash and path of the shape."""
        paths = list(SHAPES.values())
        return [
            {
                "name": name,
                "color": index % len(LIGHT),
                "dash": " ".join(map(str, DASHES[index % len(DASHES)])) or "none",
                "shape": paths[index % len(paths)],
            }
            for index, name in enumerate(self.names)
        ]

    def dashes(self) -> list[list[int]]:
        """Dash pattern of each name."""
        return [list(DASHES[index % len(DASHES)]) or [1, 0] for index in range(len(self.names))]

    def shapes(self) -> list[str]:
        """Vega's name of each name's shape."""
        shapes = list(SHAPES)
        return [shapes[index % len(shapes)] for index in range(len(self.names))]


def chart_config(*, page: bool) -> dict[str, Any]:
    """Vega-Lite configuration of all charts: CSS variables for the page, dark on white for files."""
    ink, dim, line = (shade(name, page) for name in ("ink", "dim", "line"))
    return {
        "background": None if page else "white",
        "font": "system-ui, sans-serif" if page else "sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": dim,
            "titleColor": dim,
            "gridColor": line,
            "domainColor": line,
            "tickColor": line,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "labelLimit": 120,
        },
        "legend": {
            "labelColor": ink,
            "titleColor": dim,
            "labelFontSize": 11,
            "symbolStrokeWidth": 2,
            "orient": "bottom",
        },
        "title": {"color": ink, "fontSize": 12, "anchor": "start"},
        "text": {"color": ink},
        "range": {"category": palette(page)},
    }
