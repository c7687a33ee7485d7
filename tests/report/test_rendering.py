"""Parts of the page: what is escaped, what is shown once, what the tiles count."""

import json
import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from momentalign.report import TableSection
from momentalign.report._chapters import Panel, PanelGroup, TableWithChart
from momentalign.report._charts import bars
from momentalign.report._page import _tiles
from momentalign.report._published_rows import _encoder_name, with_published
from momentalign.report._rendering import _common_notes, _csp_hash, _spec_json, _stylesheet
from momentalign.report._sections import mark_notes, trial_cell
from momentalign.report._style import DARK, LIGHT, palette
from momentalign.report._table import ResultCell, ResultRow
from momentalign.selection import Sweep


def table(*notes: str) -> TableWithChart:
    return TableWithChart(TableSection("x", "x", "finetune", "x", notes, (), (), ()), PanelGroup("", []))


@pytest.mark.parametrize(
    ("tables", "shared"),
    [
        ([("a", "b")], []),
        ([("a", "b", "c"), ("c", "a")], ["a", "c"]),
        ([("a",), ("a",), ("b",)], []),
    ],
)
def test_notes_that_all_of_several_tables_share_are_shown_once(
    tables: list[tuple[str, ...]], shared: list[str]
) -> None:
    assert _common_notes([table(*notes) for notes in tables]) == shared


def test_charts_in_a_page_cannot_end_their_script() -> None:
    name = "</script>&\u2028\u2029\x1b[31mé"
    text = _spec_json(Panel(name, [{"method": name}], partial(bars, methods=(name,), x="s")))
    assert not set("<>&\u2028\u2029\x1b") & set(text)
    assert json.loads(text)["data"]["values"] == [{"method": "</script>&\\u2028\\u2029\\x1b[31mé"}]


def test_styles_of_a_page_have_the_colours_of_its_charts() -> None:
    """Light ones in :root and for print, dark ones for dark screens; charts on the page name them by number."""
    sheet = _stylesheet()
    assert "/*light*/" not in sheet
    assert "/*dark*/" not in sheet
    for number, (light, dark) in enumerate(zip(LIGHT, DARK, strict=True)):
        found = re.findall(rf"--c{number}: (#\w+);", sheet)
        assert found == [light, dark, light]
        assert palette(True)[number] == f"var(--c{number})"


def test_a_script_is_named_by_the_hash_of_its_text() -> None:
    # printf 'alert(1)' | openssl dgst -sha256 -binary | base64
    assert _csp_hash("alert(1)") == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"


def tiles(status: list[str], methods: int = 1, problems: int = 1, finished: str | None = None) -> list[tuple[str, str]]:
    runs = pd.DataFrame({"status": status}).assign(
        trial=0, started="2026-01-01T10:00:00", finished=finished, seconds=None
    )
    runs["folder"] = [f"run {k}" for k in range(len(runs))]
    sweep = Sweep(pd.concat([runs, runs.add_suffix("+sma", axis="index")]), pd.DataFrame())  # averaged weights too
    grouped: Any = SimpleNamespace(sweep=sweep, methods=("m",) * methods, cases=[None])
    return _tiles(grouped, problems)


def test_tiles_count_runs_methods_and_problems() -> None:
    assert tiles(["finished"] * 2) == [
        ("2", "runs finished"),
        ("1", "method"),
        ("1", "data set"),
        ("1", "trial"),
        ("1", "problem found"),
    ]
    found = tiles(["finished", "failed", "running"], 2, 0, "2026-01-01T10:00:30")
    assert found[:2] == [("1 / 3", "runs finished"), ("2", "methods")]
    assert [what for _, what in found[-2:]] == ["total training time", "problems found"]
    assert "30" in found[-2][0] or "1.5" in found[-2][0]


@pytest.mark.parametrize(
    ("values", "ddof", "expected"),
    [
        ([], 0, (None, None, 0)),
        ([0.5], 1, (50.0, None, 1)),
        ([0.5, 0.7], 0, (60.0, 10 / 2**0.5, 2)),
        ([0.5, 0.7], 1, (60.0, 10.0, 2)),
    ],
)
def test_cells_are_means_over_trials_with_their_error(
    values: list[float], ddof: int, expected: tuple[Any, ...]
) -> None:
    cell = trial_cell(pd.Series(values, dtype=float), True, ddof=ddof)
    assert (cell.mean, cell.error, cell.trials) == pytest.approx(expected)
    assert cell.complete == bool(values)


def rows(*cells: ResultCell, published: bool = False) -> list[ResultRow]:
    return [ResultRow("erm", "ERM", published, cells)]


def test_marks_are_explained_where_they_occur_among_our_numbers() -> None:
    missing, short = "– no finished run that could be selected; x.", "* over fewer finished runs than 3 trials."
    for cells, expected in (
        ([ResultCell(1.0)], []),
        ([ResultCell(None, complete=False)], [missing]),
        ([ResultCell(None, expected=False, complete=False)], []),
        ([ResultCell(1.0, complete=False)], [short]),
        ([ResultCell(1.0, complete=False), ResultCell(None)], [missing, short]),
    ):
        assert mark_notes(rows(*cells), "3 trials", "; x") == expected
        assert mark_notes(rows(*cells, published=True), "3 trials") == []


def test_published_rows_follow_ours_with_footnotes_told_once() -> None:
    number: Any = SimpleNamespace(mean=75.8, error=None, note="a misprint")
    ours = [*rows(ResultCell(1.0), ResultCell(2.0)), ResultRow("mine", "mine", False, (ResultCell(3.0),) * 2)]
    both, notes = with_published(ours, ("a", "b"), {"erm": {"a": number, "b": number}}, "published: x.", 2)
    assert [(row.algorithm, row.published) for row in both] == [("erm", False), ("erm", True), ("mine", False)]
    assert [cell.text for cell in both[1].cells] == ["75.80†"] * 2
    assert notes == ["published: x.", "† a misprint."]
    assert with_published(ours, ("a", "b"), {}, "published: x.") == (ours, [])


@pytest.mark.parametrize(
    ("encoder", "name"),
    [
        ("hf:openai/clip", "hf:openai/clip"),
        ("/home/me/clip", "clip"),
        ("hf:/home/me/clip", "clip"),
        ("resnet18", "resnet18"),
        ("other:/home/me/clip", "other:/home/me/clip"),
    ],
)
def test_encoders_go_by_name_without_their_folder(encoder: str, name: str) -> None:
    assert _encoder_name(encoder) == name
