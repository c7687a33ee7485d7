"""How names look: a colour, a dash and a shape each, so that a chart can be read without colour, and in print.

On the page colours are CSS variables, so that one drawing serves light, dark and paper; in figures they are the light
ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LIGHT = ("#0067a5", "#c9510c", "#00785c", "#a8397f", "#6a4fb3", "#8a6100", "#4a5568", "#b3203f")
DARK = ("#5fb4f5", "#ff9350", "#3fd0a4", "#f093cd", "#b7a1f5", "#e8bd4f", "#b9c2cf", "#ff8fa3")
DASHES: tuple[list[int], ...] = ([], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 4], [9, 3, 2, 3, 2, 3])
"""Seven, to eight colours and eight shapes: 56 names before a look comes back."""
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
"""Vega's names, with the paths that the page's own legends draw."""


@dataclass(frozen=True)
class Looks:
    """Names in order, each with its look.

    Args:
        names: Of methods or of domains; order decides the look.
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Iterable[str]) -> "Looks":
        """Looks of names, each taken once, in the order they come."""
        return cls(tuple(dict.fromkeys(names)))

    def legend(self) -> list[dict[str, Any]]:
        """What the page's legend draws: name, number of the colour, dash and path of the shape."""
        shapes = list(SHAPES.values())
        return [
            {
                "name": name,
                "color": number % len(LIGHT),
                "dash": " ".join(map(str, DASHES[number % len(DASHES)])) or "none",
                "shape": shapes[number % len(shapes)],
            }
            for number, name in enumerate(self.names)
        ]

    def dashes(self) -> list[list[int]]:
        """A dash for each name."""
        return [list(DASHES[number % len(DASHES)]) or [1, 0] for number in range(len(self.names))]

    def shapes(self) -> list[str]:
        """A shape for each name, as Vega calls it."""
        shapes = list(SHAPES)
        return [shapes[number % len(shapes)] for number in range(len(self.names))]


def chart_config(*, page: bool) -> dict[str, Any]:
    """Colours and letters of all charts.

    Args:
        page: For the page, in its CSS variables; otherwise for files, dark on white.

    Returns:
        A Vega-Lite configuration.
    """
    colours = [f"var(--c{number})" for number in range(len(LIGHT))] if page else list(LIGHT)
    ink, dim, line = ("var(--ink)", "var(--dim)", "var(--line)") if page else ("#1c1e21", "#4a5058", "#d9dde2")
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
        "range": {"category": colours},
    }
