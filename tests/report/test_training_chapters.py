"""Which numbers the charts of a training chapter show, on a sweep that can be checked by eye."""

from pathlib import Path

import pytest

from momentalign.report._cases import group_cases
from momentalign.report._training_chapters import _scale, _unit, cost_chapter, gap_chapter, term_chapter
from tests.report.sweeps import by_hand


def last_means(chapter) -> dict[str, float]:
    """Mean at the last step of each chart, by its title."""
    (tab,) = chapter.tabs
    (group,) = tab.groups
    return {panel.title: max(panel.rows, key=lambda row: row["step"])["mean"] for panel in group.panels}


def test_terms_and_moments_are_drawn_under_their_own_titles(tmp_path: Path) -> None:
    grouped = group_cases(by_hand(tmp_path))
    assert last_means(term_chapter(grouped)) == {"accuracy on the test domains, mean": 70.0, "Hessian spread": 1.5}
    assert last_means(gap_chapter(grouped)) == {
        "first moments: distance of means": 2.0,
        "second moments: distance of covariances": 20.0,
        "first moments of mini-batches in training mode": 6.0,
    }


def test_costs_are_drawn_in_their_own_units(tmp_path: Path) -> None:
    (tab,) = cost_chapter(group_cases(by_hand(tmp_path))).tabs
    (group,) = tab.groups
    texts = {panel.title: [row["text"] for row in panel.rows] for panel in group.panels}
    assert texts == {"time per step": ["250 ms"], "peak memory": ["2 GiB"]}


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("step_seconds", 1.0, "1 s"),
        ("step_seconds", 0.5, "500 ms"),
        ("memory_gib", 1.0, "1 GiB"),
        ("memory_gib", 0.5, "512 MiB"),
    ],
)
def test_units_make_the_largest_number_at_least_one(metric: str, value: float, text: str) -> None:
    rows = [{"value": value, "low": value / 2, "high": value}, {"value": value / 8, "low": 0.0, "high": value / 8}]
    unit, (largest, other) = _unit(metric, rows)
    assert largest["text"] == text
    assert text == f"{largest['value']:g} {unit}"
    assert largest["low"] == largest["value"] / 2
    assert largest["room"] == pytest.approx(1.3 * largest["value"])
    assert other["value"] == largest["value"] / 8


@pytest.mark.parametrize(
    ("means", "low", "expected"),
    [
        ([1.0, 19.0], 0.5, {"scale": "linear", "tiny": False}),
        ([1e-5, 5e-5], 1e-6, {"scale": "linear", "tiny": True}),
        ([0.0, 0.0], 0.0, {"scale": "linear", "tiny": False}),
        ([0.05, 2.0], 0.0, {"scale": "symlog", "constant": 0.01, "tiny": False}),
    ],
)
def test_axes_are_logarithmic_only_for_numbers_that_span_decades(means, low, expected) -> None:
    assert _scale([{"mean": mean, "low": low, "high": mean} for mean in means]) == pytest.approx(expected)


def test_a_logarithmic_axis_needs_everything_above_zero() -> None:
    rows = [{"mean": 0.1, "low": 0.05, "high": 0.2}, {"mean": 2.0, "low": 1.0, "high": 3.0}]
    found = _scale(rows)
    assert (found["scale"], found["tiny"]) == ("log", False)
    assert _scale([{**row, "low": 0.0} for row in rows])["scale"] == "symlog"


@pytest.mark.parametrize(
    ("largest", "scale"), [(19.9, "linear"), (20.0, "log"), (20.5, "log"), (-1.0, "linear")], ids=str
)
def test_numbers_of_one_chart_span_decades_from_twenty_times_the_smallest_on(largest: float, scale: str) -> None:
    rows = [{"mean": mean, "low": 0.5, "high": mean} for mean in (1.0, largest)]
    assert _scale(rows)["scale"] == scale


@pytest.mark.parametrize(("smallest", "tiny"), [(0.001, False), (0.0009, True)])
def test_numbers_below_a_thousandth_have_exponents(smallest: float, tiny: bool) -> None:
    rows = [{"mean": mean, "low": mean / 2, "high": mean} for mean in (smallest, 1.0)]
    assert _scale(rows)["tiny"] == tiny
    assert _scale([{"mean": smallest, "low": 0.0, "high": smallest}])["tiny"] == tiny
