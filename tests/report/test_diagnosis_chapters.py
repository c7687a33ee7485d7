"""What the diagnosis page shows of a diagnosis: invented numbers that can be checked by eye, without a browser."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from momentalign.report._diagnosis_charts import (
    column_strips,
    line_height,
    score_dots,
    stacked_shares,
    value_ranges,
)
from momentalign.report._diagnosis_page import _column_table, _domain_table, diagnosis_chapters
from momentalign.report._style import LIGHT, NameStyles
from momentalign.tables import (
    ColumnShift,
    ComparedRows,
    DomainDiagnosis,
    DomainShift,
    Estimate,
    LeftOutScore,
    PlainFits,
    ShiftTest,
)

NAMES = ("a", "b", "c")


def column(name: str, *, found: bool = True, what: str = "") -> ColumnShift:
    means, standard = np.array([2.0, 30.0, 1.0]), np.array([0.25, 0.5, -0.75])
    return ColumnShift(name, 0.125, found, what, means, standard, np.array([0.0, 0.5, 0.25]))


def make_diagnosis(
    *,
    numbers: bool = False,
    classes: int = 2,
    columns: int = 2,
    together: int = 1,
) -> DomainDiagnosis:
    """Three domains of four rows; b has the largest score and c too few rows for most measures."""
    values = (
        np.array([1.0, 2, 3, 4, 10, 20, 30, 40, 5, 5, 5, 5]) if numbers else np.minimum(np.arange(12) % 4, classes - 1)
    )
    labels = None if numbers else tuple(f"class {k}" for k in range(classes))
    rows = ComparedRows(np.zeros((12, 1)), values, np.repeat([0, 1, 2], 4), NAMES, labels)
    scores = (
        LeftOutScore("a", 4, Estimate(0.5, 0.25, 0.75), 0.4, Estimate(0.625, 0.5, 0.75), Estimate(0.125, 0.0, 0.25)),
        LeftOutScore("b", 4, Estimate(0.875, 0.75, 1.0), 0.3, Estimate(0.9, 0.8, 1.0), None),
        LeftOutScore("c", 4, Estimate(0.25, 0.0, 0.5), 0.2, None, None),
    )
    shifts = (
        DomainShift("a", ShiftTest(0.25, True), ShiftTest(0.75, True), ShiftTest(0.125, True)),
        DomainShift("b", ShiftTest(1.5, True), ShiftTest(0.4, True), ShiftTest(0.9, False)),
        DomainShift("c", None, None, None),
    )
    differing = (*(column(f"x{k}") for k in range(columns)), column("kind", found=False, what="red"))
    transfer: Any = None
    return DomainDiagnosis(rows, PlainFits(scores, np.zeros((12, 1)), together), (), shifts, differing, None, transfer)


def panel_of(diagnosis: DomainDiagnosis, key: str) -> tuple[Any, Any]:
    """The only chart of a chapter, and its note."""
    (chapter,) = [chapter for chapter in diagnosis_chapters(diagnosis) if chapter.key == key]
    (tab,) = chapter.tabs
    (group,) = tab.groups
    (panel,) = group.panels
    return panel, chapter.note


@pytest.mark.parametrize(("numbers", "factor", "order"), [(False, 100, "cab"), (True, 1, "bac")])
def test_scores_are_drawn_from_the_worst_domain_to_the_best(numbers: bool, factor: float, order: str) -> None:
    """Accuracies in percent; errors in their own units, the largest first."""
    panel, note = panel_of(make_diagnosis(numbers=numbers), "left-out")
    assert list(dict.fromkeys(row["domain"] for row in panel.rows)) == list(order)
    assert panel.draw.keywords["domains"] == tuple(order)
    shown = {(row["domain"], row["model"]): row for row in panel.rows}
    assert len(shown) == 5  # c has too few rows of its own
    left, seen = shown["a", "left out"], shown["a", "rows of its own in training"]
    assert [left[key] for key in ("value", "low", "high", "guess")] == [factor * v for v in (0.5, 0.25, 0.75, 0.4)]
    assert (left["rows"], seen["value"]) == (4, factor * 0.625)
    assert left["text"] == ("0.5 (0.25 to 0.75)" if numbers else "50.0 (25.0 to 75.0)")
    assert ("Ridge" if numbers else "Logistic") in note
    assert ("other domains' mean" in note) == numbers


@pytest.mark.parametrize("together", [1, 2, 3])
def test_domains_that_are_left_out_together_are_named(together: int) -> None:
    _, note = panel_of(make_diagnosis(together=together), "left-out")
    assert (f"Up to {together} domains are left out at a time." in note) == (together > 1)


def test_numbers_are_drawn_by_their_quartiles() -> None:
    panel, _ = panel_of(make_diagnosis(numbers=True), "labels")
    found = {row["domain"]: (row["low"], row["value"], row["high"], row["text"]) for row in panel.rows}
    assert found == {
        "a": (1.75, 2.5, 3.25, "2.5 (1.75 to 3.25)"),
        "b": (17.5, 25.0, 32.5, "25 (17.5 to 32.5)"),
        "c": (5.0, 5.0, 5.0, "5 (5 to 5)"),
    }


def test_classes_are_drawn_from_the_most_frequent_to_the_rarest() -> None:
    panel, _ = panel_of(make_diagnosis(), "labels")  # a quarter of the rows is of the first class
    first = [row for row in panel.rows if row["number"] == 0]
    assert {row["label"] for row in first} == {"class 1"}
    assert [(row["domain"], row["share"], row["text"]) for row in first] == [(name, 0.75, "75.0%") for name in NAMES]
    assert sum(row["share"] for row in panel.rows) == pytest.approx(len(NAMES))


@pytest.mark.parametrize("more", [0, 1, 3])
def test_classes_without_a_colour_of_their_own_are_drawn_together(more: int) -> None:
    count = len(LIGHT) + more
    panel, _ = panel_of(make_diagnosis(classes=count), "labels")
    labels = list(dict.fromkeys(row["label"] for row in panel.rows))
    assert len(labels) == len(LIGHT)
    # All of the first classes have a quarter of the rows, the others none.
    assert labels[:4] == [f"class {k}" for k in range(4)]
    assert (labels[-1] == f"{more + 1} other classes") == (more > 0)
    assert sum(row["share"] for row in panel.rows) == pytest.approx(len(NAMES))


@pytest.mark.parametrize("numbers", [False, True])
def test_kinds_of_difference_are_shown_where_they_were_found(numbers: bool) -> None:
    panel, note = panel_of(make_diagnosis(numbers=numbers), "kinds")
    texts = {(row["row"], row["column"]): (row["text"], row["share"]) for row in panel.rows}
    # An area under the curve of 0.5 is chance, and colours end at 0 and 1.
    assert texts == {
        ("a", "label shift"): ("0.2" if numbers else "25%", 0.25),
        ("a", "diversity shift"): ("0.75", 0.5),
        ("a", "correlation shift"): ("12%", 0.125),
        ("b", "label shift"): ("1.5" if numbers else "150%", 1.0),
        ("b", "diversity shift"): ("0.40", 0.0),
        ("b", "correlation shift"): ("–", 0.0),
        **{("c", f"{kind} shift"): ("few rows", 0.0) for kind in ("label", "diversity", "correlation")},
    }
    assert ("mean label" in note) == numbers


@pytest.mark.parametrize(("found", "shown"), [(2, 2), (14, 12)])
def test_columns_that_differ_are_drawn_up_to_a_dozen(found: int, shown: int) -> None:
    panel, note = panel_of(make_diagnosis(columns=found), "columns")
    assert list(dict.fromkeys(row["column"] for row in panel.rows)) == [f"x{k}" for k in range(shown)]
    assert f"Shown: {shown} of {found + 1} columns." in note
    first = panel.rows[:3]
    assert [(row["domain"], row["value"], row["text"], row["missing"]) for row in first] == [
        ("a", 0.25, "2", "0%"),
        ("b", 0.5, "30", "50%"),
        ("c", -0.75, "1", "25%"),
    ]


def test_without_columns_that_differ_there_is_no_chart() -> None:
    *_, chapter = diagnosis_chapters(make_diagnosis(columns=0))
    assert (chapter.key, chapter.tabs) == ("columns", [])


def test_tables_have_the_scores_and_the_ends_of_each_column() -> None:
    diagnosis = make_diagnosis(columns=60)
    head, first, _, last = _domain_table(diagnosis)
    assert head[2] == "accuracy, left out"
    assert first == ["a", "4", "50.0 (25.0 to 75.0)", "62.5 (50.0 to 75.0)", "12.5 (0.0 to 25.0)"]
    assert last[3:] == ["too few rows"] * 2
    assert _domain_table(make_diagnosis(numbers=True))[0][2] == "mean absolute error, left out"
    table = _column_table(diagnosis)
    assert len(table) == 51
    assert table[1] == ["x0", "12.5%", "1 (c)", "30 (b)", "0% to 50%"]
    assert _column_table(make_diagnosis(columns=1))[2][:2] == ["kind = red", "none found"]


STYLES = NameStyles(("one", "two"))
CHARTS: dict[str, Any] = {
    "scores": lambda page: score_dots(styles=STYLES, domains=NAMES, x="accuracy, %", page=page),
    "shares": lambda page: stacked_shares(styles=STYLES, domains=NAMES, page=page),
    "ranges": lambda page: value_ranges(domains=NAMES, x="label", page=page),
    "columns": lambda page: column_strips(styles=STYLES, columns=NAMES, page=page),
    "columns without styles": lambda page: column_strips(styles=None, columns=NAMES, page=page),
}


def marks(part: Any) -> Iterator[dict[str, Any]]:
    for layer in part["layer"]:
        yield {**layer["mark"], **layer["encoding"]}


@pytest.mark.parametrize("page", [True, False])
@pytest.mark.parametrize("name", CHARTS)
def test_charts_order_their_lines_as_given_and_show_what_they_draw(name: str, page: bool) -> None:
    spec = CHARTS[name](page)
    for mark in marks(spec):
        if mark["y"]["type"] == "nominal":
            assert mark["y"]["sort"] == list(NAMES)
            assert mark["y"].get("axis", {"labelOverlap": False})["labelOverlap"] is False  # every name is written
    visible = [mark for mark in marks(spec) if mark.get("opacity") != 0]
    assert any("tooltip" in mark for mark in visible)
    assert all("tooltip" not in mark or mark["tooltip"] for mark in visible)
    assert page or "var(--" not in str(visible)  # a file has no style sheet


def test_scores_need_not_start_at_zero() -> None:
    for name in ("scores", "ranges"):
        scales = [mark["x"]["scale"] for mark in marks(CHARTS[name](True))]
        assert all(not scale["zero"] and scale["nice"] for scale in scales)


def test_lines_are_narrower_where_there_are_many_and_hold_a_name() -> None:
    heights = [line_height(count) for count in range(1, 40)]
    changes = [count for count in range(1, 39) if heights[count] != heights[count - 1]]
    assert changes == [6, 15]  # the last numbers of domains before lines get narrower
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] > 11  # the size of the names


@pytest.mark.parametrize(
    "draw",
    [
        lambda names: score_dots(styles=STYLES, domains=names, x="x", page=False),
        lambda names: stacked_shares(styles=STYLES, domains=names, page=False),
        lambda names: value_ranges(domains=names, x="x", page=False),
        lambda names: column_strips(styles=None, columns=names, page=False),
    ],
    ids=["scores", "shares", "ranges", "columns"],
)
def test_few_lines_are_as_high_as_one(draw: Any) -> None:
    heights = [draw(NAMES[:count])["height"] for count in (1, 2, 3)]
    assert heights == [heights[0], 2 * heights[0], 3 * heights[0]]
    assert heights[0] > 11


@pytest.mark.parametrize("page", [True, False])
@pytest.mark.parametrize("name", CHARTS)
def test_marks_are_visible_or_hidden_with_their_tooltip(name: str, page: bool) -> None:
    for mark in marks(CHARTS[name](page)):
        given = mark.get("opacity", 1)
        opacity = given if not isinstance(given, dict) else given.get("condition", given)["value"]
        if opacity == 0:
            assert mark["tooltip"] is None
        else:
            assert 0.4 < opacity <= 1
