"""Figures of the documentation are what their scripts draw."""

import importlib.util
import re
from pathlib import Path

import pytest

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"


def texts(svg: str) -> set[str]:
    return set(re.findall(r"<text[^>]*>([^<]+)</text>", svg))


@pytest.mark.parametrize("script", sorted(FIGURES.glob("*.py")), ids=lambda path: path.stem)
def test_saved_figures_show_what_their_scripts_draw(script):
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    saved = script.with_name(script.stem.replace("_", "-") + ".svg").read_text(encoding="utf-8")
    assert len(texts(saved)) > 5
    assert texts(module.figure()) == texts(saved)
