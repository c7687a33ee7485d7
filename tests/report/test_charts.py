import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import pytest

from momentalign.report import write_report
from momentalign.report._chapters import Chapter, figure_json, file_part
from momentalign.report._charts import ChartBuilder, curves, decades, tip
from momentalign.report._page import make_chapters
from momentalign.report._style import DARK, DASHES, LIGHT, SHAPES, NameStyles
from momentalign.selection import Sweep, read_runs
from tests.report.sweeps import HOSTILE, hostile, mixed
from tests.runs.fake_sweep import write_fake_sweep

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return mixed(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(scope="module")
def chapters(sweep: Sweep) -> list[Chapter]:
    return make_chapters(sweep)[1]


def panels(chapters: list[Chapter]) -> Iterator[Any]:
    for chapter in chapters:
        for tab in chapter.tabs:
            for group in tab.figures():
                yield from group.panels


@pytest.mark.parametrize("page", [True, False])
def test_every_chart_is_valid_vega_lite(chapters: list[Chapter], page: bool) -> None:
    found = {panel.draw.func.__name__: panel for panel in panels(chapters)}
    assert found.keys() == {"curves", "dots", "bars", "scatter"}
    for panel in found.values():
        alt.Chart.from_dict({**panel.spec(page=page), "data": {"values": panel.rows[:1]}})


def test_every_figure_is_valid_vega_lite(chapters: list[Chapter]) -> None:
    for chapter in chapters:
        for group in chapter.tabs[0].figures()[:1] if chapter.key in ("curves", "costs") else ():
            short = [replace(panel, rows=panel.rows[:1]) for panel in group.panels[:2]]
            alt.Chart.from_dict(json.loads(figure_json(replace(group, panels=short))))


def test_a_column_that_a_chart_names_is_in_its_rows(chapters: list[Chapter]) -> None:
    for panel in panels(chapters):
        for row in panel.rows:
            assert fields(panel.spec(page=True)["layer"]) <= row.keys(), panel.title


def fields(part: Any) -> set[str]:
    if isinstance(part, list):
        return set().union(*map(fields, part))
    if not isinstance(part, dict):
        return set()
    own = {part["field"]} if isinstance(part.get("field"), str) else set()
    return own.union(*map(fields, part.values()))


def test_names_are_never_part_of_a_definition_s_expressions(tmp_path: Path) -> None:
    found = list(panels(make_chapters(hostile(tmp_path))[1]))
    seen = {expression for panel in found for expression in expressions(panel.spec(page=True)["layer"])}
    assert set(FOCUS) & seen
    for expression in seen:
        known = expression in ("datum.marked", "datum.chosen", *FOCUS)
        assert known or re.fullmatch(r"width / \d+ - 6", expression)


FOCUS = [f"focus === '' || datum.{field} === focus" for field in ("method", "domain")]


def expressions(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for one in part:
            yield from expressions(one)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in ("test", "filter", "expr", "calculate", "signal"):
                yield value
            else:
                yield from expressions(value)


def test_styles_differ_without_colour() -> None:
    items = NameStyles.of([f"method {number}" for number in range(20)]).legend()
    assert len({(item["dash"], item["shape"]) for item in items}) == 20
    assert len(LIGHT) == len(DARK) == len(SHAPES)
    assert len(LIGHT) % len(DASHES)  # or the same pairs would repeat too soon


@pytest.mark.parametrize(("paper", "colours"), [("#ffffff", LIGHT), ("#16181c", DARK)])
def test_colours_stand_out_from_the_paper(paper: str, colours: tuple[str, ...]) -> None:
    for colour in colours:
        assert contrast(colour, paper) >= 4.5, colour


def contrast(one: str, other: str) -> float:
    lights = sorted(map(luminance, (one, other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_decades() -> None:
    assert decades([2e-4, 3e-3]) == (-4, -3, -2)
    assert decades([1.0, 100.0]) == (0, 1, 2)
    assert len(decades([1e-9, 1e9])) <= 10


def test_lines_of_a_tooltip_are_named_by_their_column_unless_told() -> None:
    plain, named = (tip(*names).to_dict() for names in (("method",), ("mean", "accuracy, %")))
    assert (plain["field"], plain["title"], plain["type"]) == ("method", "method", "nominal")
    assert (named["field"], named["title"], named["type"]) == ("mean", "accuracy, %", "quantitative")


def test_a_definition_is_made_once() -> None:
    styles = NameStyles.of(["ERM"])
    assert curves(styles=styles, y="accuracy, %", page=True) is curves(styles=styles, y="accuracy, %", page=True)
    assert "params" not in ChartBuilder(None, True).finish([alt.Chart(alt.NamedData("rows")).mark_point()], 10)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Oracle", "oracle"), ("../../etc/passwd", "etc-passwd"), ("<>", "x"), ("", ""), ("a" * 200, "a" * 60)],
)
def test_names_of_files_are_harmless(name: str, expected: str) -> None:
    assert file_part(name) == expected


def test_figures_in_three_formats(tmp_path: Path) -> None:
    folder = tmp_path / "in" / "figures"
    write_fake_sweep(tmp_path / "runs", dataset="../<script>", algorithms=("erm",), domains=HOSTILE[:2], hparams=1)
    written = write_report(read_runs(tmp_path / "runs"), tmp_path / "report.html", folder)
    starts = {".png": b"\x89PNG", ".svg": b"<svg", ".pdf": b"%PDF"}
    assert len(written) > 6
    for path in written[1:]:
        assert path.parent == folder
        assert path.read_bytes().startswith(starts[path.suffix])
    assert set(folder.iterdir()) == set(written[1:])
    assert not any("<script" in path.read_text() for path in folder.glob("*.svg"))


def test_opacities_are_shares(chapters: list[Chapter]) -> None:
    def values(node: Any) -> Iterator[float]:
        """Opacities of a definition, and what they are under a condition."""
        for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            if key == "opacity":
                given = value if isinstance(value, dict) else {"value": value}
                yield from (part["value"] for part in (given, given.get("condition", {})) if "value" in part)
            else:
                yield from values(value)

    found = {panel.draw.func.__name__: panel for panel in panels(chapters)}
    opacities = [value for panel in found.values() for page in (True, False) for value in values(panel.spec(page=page))]
    assert opacities
    assert all(0 <= value <= 1 for value in opacities)
