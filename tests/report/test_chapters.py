"""Parts of chapters, without a sweep."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from momentalign.report._accuracy_chapters import _search_group, _varied
from momentalign.report._diagnosis_charts import domain_points
from momentalign.report._diagnosis_page import _strength
from momentalign.report._distance_chapter import _lost, _matrix_panels, _panel


@pytest.mark.parametrize(
    ("title", "texts"),
    [
        ("Gain in points", ["1.2", "0.1"]),
        ("Accuracy in %", ["1.2", "0.1"]),
        ("Distance", ["1.23", "0.12"]),
    ],
)
def test_numbers_of_a_matrix_have_the_decimals_of_their_unit(title: str, texts: list[str]) -> None:
    frame = pd.DataFrame({"row": ["a", "b"], "column": ["x", "x"], "value": [1.234, 0.123]})
    panel = _panel(frame, (["b", "a", "c"], ["x"]), ("rows", "columns"), title)
    assert [row["text"] for row in panel.rows] == texts
    assert [row["share"] for row in panel.rows] == [1, 0]


def test_hyperparameters_that_differ_are_drawn_with_their_numbers() -> None:
    hparams = pd.Series([{"lr": 0.1, "a": 1, "name": "x"}, {"lr": 0.2, "a": 1, "name": "y"}, {"a": 1, "late": True}])
    assert _varied(hparams) == [("lr", [0.1, 0.2, None])]


MATRIX = pd.DataFrame(
    [("erm", "a", "a", 50.0), ("erm", "b", "a", 70.0), ("erm", "c", "a", 80.0), ("erm", "b", "b", 90.0)],
    columns=["method", "left_out", "domain", "value"],
)
"""Accuracy on a domain in runs that left one out; no run that kept b was scored there."""


def test_what_leaving_out_a_domain_costs() -> None:
    (lost,) = _lost(MATRIX, ["cma", "erm"]).to_dict("records")
    assert lost == {"row": "erm", "column": "a", "value": 25.0}


def test_methods_without_runs_have_no_matrix() -> None:
    grouped: Any = SimpleNamespace(methods=("cma", "erm"))
    case: Any = SimpleNamespace(domains=("a", "b", "c"))
    (panel,) = _matrix_panels(grouped, case, MATRIX)
    assert panel.title.startswith("erm: ")


@pytest.mark.parametrize(("rule", "domain"), [("oracle", "a"), ("worst-group", "worst group")])
def test_points_of_a_search_are_named_by_what_was_scored(rule: str, domain: str) -> None:
    runs = pd.DataFrame({"method": "erm", "hparams": [{"lr": 0.1}, {"lr": 0.2}]}, index=["r", "s"])
    points = pd.DataFrame({"run": ["r", "s"], "test_domain": "a", "test": 0.5, "validation": 0.25, "trial": 0})
    case: Any = SimpleNamespace(rule=rule, runs=runs, chosen=points[:1], domains=("a",), title="t")
    found = _search_group(case, "erm", {rule: points})
    assert found is not None
    assert [(row["domain"], row["value"], row["chosen"]) for row in found.panels[0].rows] == [
        (domain, 0.1, True),
        (domain, 0.2, False),
    ]


def _test(**values: Any) -> Any:
    return SimpleNamespace(**values)


def test_a_difference_that_was_not_tested_or_not_found_has_no_colour() -> None:
    assert _strength(None, "diversity") == _strength(_test(found=False, size=0.9), "diversity") == 0
    assert _strength(_test(found=True, size=0.9), "diversity") == 0.8
    assert _strength(_test(found=True, size=0.9), "correlation") == 0.9


def test_the_corners_that_make_units_equal_are_invisible() -> None:
    layers = domain_points(names=False, page=False)["layer"]
    corners = [layer for layer in layers if layer["encoding"]["x"]["field"] in ("reach", "back")]
    assert [layer["mark"]["opacity"] for layer in corners] == [0, 0]
