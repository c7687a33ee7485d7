"""The page's charts as files."""

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vl_convert

from momentalign._files import atomic_write
from momentalign.report._blocks import Block, Group
from momentalign.report._theme import chart_config

_WRITERS: dict[str, Callable[..., bytes | str]] = {
    "svg": vl_convert.vegalite_to_svg,
    "png": lambda spec, **options: vl_convert.vegalite_to_png(spec, scale=2, **options),
    "pdf": vl_convert.vegalite_to_pdf,
}


def write_figures(blocks: list[Block], folder: Path, progress: Callable[[float], None]) -> list[Path]:
    """Save every group of charts as one figure in three formats.

    Args:
        blocks: Chapters of the page.
        folder: Where the files go; they are named by chapter, tab and group.
        progress: Called with the share that is written.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Group] = {}
    for block in blocks:
        for tab in block.tabs:
            for group in tab.figures():
                name = "-".join(filter(None, map(slug, (block.key, tab.name, group.title))))
                number = sum(known == name or known.startswith(f"{name}~") for known in figures)
                figures[name if not number else f"{name}~{number + 1}"] = group
    written = []
    try:
        for number, (name, group) in enumerate(figures.items()):
            spec = figure(group)
            for ending, write in _WRITERS.items():
                path = folder / f"{name}.{ending}"
                atomic_write(path, write(spec))
                written.append(path)
            progress((number + 1) / len(figures))
    except OSError:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
        raise
    return written


def figure(group: Group) -> str:
    """The charts of a group side by side, with one legend of the names that they show, as JSON."""
    specs = [panel.spec(page=False) for panel in group.panels]
    names = [item["name"] for item in group.legend()]
    shared = dict.fromkeys(("color", "shape", "strokeDash"), "shared") if names else {}
    joined = {
        "concat": [_with_legend(spec, names) for spec in specs],
        "columns": min(3, len(specs)),
        "resolve": {"scale": shared},
        "config": chart_config(page=False),
        **({"title": group.title} if len(specs) > 1 else {}),
    }
    return json.dumps(joined, allow_nan=False)


def _with_legend(part: Any, names: list[str]) -> Any:
    """The same specification whose legends list these names only."""
    if isinstance(part, list):
        return [_with_legend(one, names) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: {**value, "values": names} if key == "legend" and isinstance(value, dict)
        # Rows are numbers: no need to look into them.
        else value if key == "data"
        else _with_legend(value, names)
        for key, value in part.items()
    }  # fmt: skip


def slug(text: str) -> str:
    """A name that is safe as part of a file's name on any system."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return plain[:60].strip("-") or ("x" if text else "")
